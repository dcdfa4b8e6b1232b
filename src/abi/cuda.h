/*
 * The types of the CUDA driver API that api/cuda_calls.def uses, under CUDA's own names, and the
 * types of the calls. The shim and the emulated driver share these types. The list of calls
 * therefore compiles without cuda.h, and tests/shim/types.sh checks the list against cuda.h. A
 * struct names only the fields that gpumux uses; cuda_types.def lists their offsets, and a test
 * checks this header and cuda.h against these offsets.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "abi/parameters.h"
#include "abi/results.h"

#define CUDA_SONAME "libcuda.so.1"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

/* Handles: CUDA's name, and the name of the object. The emulated driver, which implements the
 * objects, defines CUDA_HANDLE before it includes this header. Programs that treat handles as plain
 * pointers define CUDA_HANDLE too. */
#ifndef CUDA_HANDLE
#define CUDA_HANDLE(word, object) typedef struct word##_st *word;
typedef uint64_t CUmemGenericAllocationHandle; /* CUDA's only handle that is a number */
#else
CUDA_HANDLE(CUmemGenericAllocationHandle, physical)
#endif
CUDA_HANDLE(CUarray, array)
CUDA_HANDLE(CUcontext, context)
CUDA_HANDLE(CUdevResourceDesc, resources)
CUDA_HANDLE(CUevent, event)
CUDA_HANDLE(CUexternalMemory, external_memory)
CUDA_HANDLE(CUfunction, function)
CUDA_HANDLE(CUgraph, graph)
CUDA_HANDLE(CUgraphExec, graph_exec)
CUDA_HANDLE(CUgraphNode, graph_node)
CUDA_HANDLE(CUgreenCtx, green_context)
CUDA_HANDLE(CUkernel, function)
CUDA_HANDLE(CUlibrary, module)
CUDA_HANDLE(CUmemoryPool, pool)
CUDA_HANDLE(CUmipmappedArray, mipmapped_array)
CUDA_HANDLE(CUmodule, module)
CUDA_HANDLE(CUstream, stream)
CUDA_HANDLE(CUuserObject, user_object)
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
typedef size_t (*CUoccupancyB2DSize)(int);

/* CUDA's enumerations; each is an int. */
typedef int CUdevice_attribute, CUdriverProcAddressQueryResult, CUfunc_cache, CUfunction_attribute;
typedef int CUfunctionLoadingState, CUgraphExecUpdateResult, CUgraphMem_attribute, CUgraphNodeType;
typedef int CUjit_option, CUlibraryOption, CUlimit, CUmem_advise, CUmemAccess_flags;
typedef int CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationType;
typedef int CUmemcpy3DOperandType, CUmemcpySrcAccessOrder, CUmemPool_attribute;
typedef int CUmoduleLoadingMode, CUpointer_attribute, CUprocessState, CUstreamAttrID;
typedef int CUstreamCaptureMode, CUstreamCaptureStatus;

/* Structs whose fields gpumux does not use. */
typedef struct CUcheckpointCheckpointArgs_st CUcheckpointCheckpointArgs;
typedef struct CUcheckpointUnlockArgs_st CUcheckpointUnlockArgs;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
typedef struct CUmemPoolPtrExportData_st CUmemPoolPtrExportData;
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUmulticastObjectProp_st CUmulticastObjectProp;
typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct {
    char bytes[16];
} CUuuid;

typedef struct {
    char reserved[64];
} CUipcMemHandle, CUipcEventHandle;

typedef struct {
    unsigned timeoutMs;
    unsigned reserved0;
    uint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct {
    void *gpuPairs;
    unsigned gpuPairsCount;
    char rest[52];
} CUcheckpointRestoreArgs;

typedef struct {
    int type;
    int id;
} CUmemLocation;

typedef struct {
    CUmemLocation location;
    int flags;
} CUmemAccessDesc;

typedef struct {
    int type;
    int requestedHandleTypes;
    CUmemLocation location;
    char rest[16];
} CUmemAllocationProp;

typedef struct {
    int allocType;
    int handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    char rest[56];
} CUmemPoolProps;

typedef struct {
    char pad[64];
} CUstreamAttrValue;

typedef struct {
    int id;
    char pad[4];
    CUstreamAttrValue value;
} CUlaunchAttribute;

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

typedef struct {
    CUfunction function;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct {
    unsigned Width, Height;
    int Format;
    unsigned NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct {
    unsigned Width, Height, Depth;
    int Format;
    unsigned NumChannels;
    unsigned Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

typedef struct {
    size_t Width, Height;
    int Format;
    unsigned NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct {
    size_t Width, Height, Depth;
    int Format;
    unsigned NumChannels;
    unsigned Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct {
    size_t size;
    size_t alignment;
    unsigned reserved[4];
} CUDA_ARRAY_MEMORY_REQUIREMENTS_v1;

/* The fields of copies that give the size and the kinds of memory. */
typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef CUDA_MEMCPY3D CUDA_MEMCPY3D_PEER; /* the reserved fields contain contexts */

typedef struct {
    CUmemcpy3DOperandType type;
    union {
        struct {
            CUdeviceptr ptr;
            size_t rowLength, layerHeight;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUarray array; /* type CU_MEMCPY_OPERAND_TYPE_ARRAY */
            size_t offset[3];
        } array;
    } op;
} CUmemcpy3DOperand;

typedef struct {
    size_t width, height, depth;
} CUextent3D;

typedef struct {
    CUmemcpy3DOperand src, dst;
    CUextent3D extent;
    CUmemcpySrcAccessOrder srcAccessOrder;
    unsigned flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef struct {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v1; /* without kern and ctx */

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value;
    unsigned elementSize;
    size_t width, height; /* width in elements, height in rows */
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

/* In CUDA this type is a union; its members for waits and for writes share this layout. */
typedef struct {
    int operation;
    CUdeviceptr address;
    uint64_t value; /* a 32-bit operation uses the lower 32 bits */
    unsigned flags;
    CUdeviceptr alias;
    uint64_t reserved;
} CUstreamBatchMemOpParams;

typedef struct {
    CUcontext ctx;
    unsigned count;
    CUstreamBatchMemOpParams *paramArray;
    unsigned flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS;

typedef struct {
    CUgraphNodeType type;
    int reserved0[3];
    union {
        CUDA_KERNEL_NODE_PARAMS kernel;
        struct {
            int flags, reserved;
            CUcontext copyCtx;
            CUDA_MEMCPY3D copyParams;
        } memcpy;
        struct {
            CUDA_MEMSET_NODE_PARAMS params;
            CUcontext ctx;
        } memset;
        CUDA_HOST_NODE_PARAMS host;
        CUgraph graph;
        CUevent eventWait, eventRecord;
        CUDA_MEM_ALLOC_NODE_PARAMS alloc; /* type CU_GRAPH_NODE_MEM_ALLOC */
        CUdeviceptr free;
        CUDA_BATCH_MEM_OP_NODE_PARAMS memOp;
        long long reserved1[29];
    };
    long long reserved2;
} CUgraphNodeParams;

typedef struct {
    unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

typedef struct {
    uint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo;

enum { CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };

enum { CU_MEMCPY_OPERAND_TYPE_POINTER = 1, CU_MEMCPY_OPERAND_TYPE_ARRAY = 2 };

enum {
    CU_PROCESS_STATE_RUNNING = 0,
    CU_PROCESS_STATE_LOCKED = 1,
    CU_PROCESS_STATE_CHECKPOINTED = 2,
    CU_PROCESS_STATE_FAILED = 3,
};

/* Handles of default streams; these handles are not pointers. */
#define STREAM_LEGACY     ((CUstream)1)
#define STREAM_PER_THREAD ((CUstream)2)

/* call_SYMBOL is the type of the function SYMBOL, and call_SYMBOL_ptsz that of its variant. */
#define CALL(symbol, name, version, variant, shim, errors, ...)                                    \
    LACK(symbol, name, version, variant, shim, ##__VA_ARGS__)
#define LACK(symbol, name, version, variant, shim, ...)                                            \
    typedef CUresult call_##symbol CALL_PARAMETERS(__VA_ARGS__);                                   \
    typedef call_##symbol call_##symbol##_##variant;
#include "../../api/cuda_calls.def"
#undef CALL
#undef LACK
