/*
 * abi/ declares the emulated part of the CUDA driver's binary interface: numbers, layouts and
 * prototypes. With these declarations the build needs neither the CUDA toolkit nor its headers.
 * Handles are pointers to structures of the emulator (driver.h). Every other folder of emu/ uses
 * abi/; abi/ uses no other folder. Tests include this header to call the real libraries, too.
 *
 * Files of the folder emu/abi may include abi.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "abi/results.h"

#define CUDA_API __attribute__((visibility("default")))

enum {
    CUDA_DRIVER_VERSION = 13000,
    CUDA_CONTEXT_FLAGS_ALL = 0x1ff,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_EVENT_FLAGS_ALL = 0x7,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_EVENT_INTERPROCESS = 4,
    CUDA_PRIORITY_LEAST = 0,
    CUDA_PRIORITY_GREATEST = -5,
    CUDA_HOST_ALLOC_FLAGS_ALL = 0x7,
};

/* Special stream handles. */
#define CUDA_STREAM_LEGACY     ((struct stream *)1)
#define CUDA_STREAM_PER_THREAD ((struct stream *)2)

/* Keys of cuLaunchKernel's `extra`. */
#define CUDA_LAUNCH_END            ((void *)0)
#define CUDA_LAUNCH_BUFFER_POINTER ((void *)1)
#define CUDA_LAUNCH_BUFFER_SIZE    ((void *)2)

enum cuda_launch_attribute_id {
    CUDA_LAUNCH_ATTRIBUTE_IGNORE = 0,
    CUDA_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
    CUDA_LAUNCH_ATTRIBUTE_PRIORITY = 8,
};

struct cuda_launch_attribute {
    int id;
    char padding[4];
    char value[64];
};

struct cuda_launch_config {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    struct stream *stream;
    struct cuda_launch_attribute *attributes;
    unsigned attribute_count;
};

enum cuda_location_type { CUDA_LOCATION_DEVICE = 1, CUDA_LOCATION_HOST = 2 };

struct cuda_location {
    int type; /* enum cuda_location_type */
    int id;
};

enum { CUDA_ALLOCATION_PINNED = 1 };

struct cuda_allocation_properties {
    int type;
    int handle_types;
    struct cuda_location location;
    void *security_attributes;
    unsigned char flags[8];
};

struct cuda_access {
    struct cuda_location location;
    int flags;
};

struct cuda_pool_properties {
    int allocation_type;
    int handle_types;
    struct cuda_location location;
    void *security_attributes;
    size_t max_bytes;
    unsigned short usage;
    unsigned char reserved[54];
};

/* Copies of up to three dimensions; a 2D copy has a subset of the fields. */
enum cuda_memory_type {
    CUDA_MEMORY_HOST = 1,
    CUDA_MEMORY_DEVICE = 2,
    CUDA_MEMORY_ARRAY = 3,
    CUDA_MEMORY_UNIFIED = 4, /* the address determines the type */
};

struct cuda_copy_2d {
    size_t from_x_bytes, from_y;
    int from_type;
    const void *from_host;
    uint64_t from_device;
    struct array *from_array;
    size_t from_pitch;
    size_t to_x_bytes, to_y;
    int to_type;
    void *to_host;
    uint64_t to_device;
    struct array *to_array;
    size_t to_pitch;
    size_t width_bytes, height;
};

struct cuda_copy_3d {
    size_t from_x_bytes, from_y, from_z, from_level;
    int from_type;
    const void *from_host;
    uint64_t from_device;
    struct array *from_array;
    void *from_reserved; /* the context, in a copy between devices */
    size_t from_pitch, from_height;
    size_t to_x_bytes, to_y, to_z, to_level;
    int to_type;
    void *to_host;
    uint64_t to_device;
    struct array *to_array;
    void *to_reserved;
    size_t to_pitch, to_height;
    size_t width_bytes, height, depth;
};

enum cuda_array_format {
    CUDA_FORMAT_U8 = 0x01,
    CUDA_FORMAT_U16 = 0x02,
    CUDA_FORMAT_U32 = 0x03,
    CUDA_FORMAT_S8 = 0x08,
    CUDA_FORMAT_S16 = 0x09,
    CUDA_FORMAT_S32 = 0x0a,
    CUDA_FORMAT_HALF = 0x10,
    CUDA_FORMAT_FLOAT = 0x20,
};

struct cuda_array_descriptor {
    size_t width, height;
    int format; /* enum cuda_array_format */
    unsigned channels;
};

struct cuda_array_3d_descriptor {
    size_t width, height, depth;
    int format;
    unsigned channels;
    unsigned flags;
};

/* Parameters of graph nodes. */
enum cuda_node_type {
    CUDA_NODE_KERNEL = 0,
    CUDA_NODE_COPY = 1,
    CUDA_NODE_FILL = 2,
    CUDA_NODE_HOST = 3,
    CUDA_NODE_GRAPH = 4,
    CUDA_NODE_EMPTY = 5,
    CUDA_NODE_WAIT_EVENT = 6,
    CUDA_NODE_RECORD_EVENT = 7,
    CUDA_NODE_ALLOCATE = 10,
    CUDA_NODE_FREE = 11,
    CUDA_NODE_WORDS = 12,
};

struct cuda_kernel_node {
    struct function *function;
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    void **parameters;
    void **extra;
    struct function *kernel; /* this and later fields: since CUDA 12 */
    struct context *context;
};

struct cuda_fill_node {
    uint64_t to;
    size_t pitch;
    unsigned value;
    unsigned element_bytes;
    size_t width, height; /* width in elements, height in rows */
};

struct cuda_host_node {
    void (*function)(void *);
    void *argument;
};

struct cuda_allocation_node {
    struct cuda_pool_properties pool;
    const struct cuda_access *access;
    size_t access_count;
    size_t bytes;
    uint64_t address; /* set by the driver */
};

enum cuda_word_operation_type {
    CUDA_WORD_WAIT_32 = 1,
    CUDA_WORD_WRITE_32 = 2,
    CUDA_WORD_WAIT_64 = 4,
    CUDA_WORD_WRITE_64 = 5,
};

struct cuda_word_operation {
    int type; /* enum cuda_word_operation_type */
    uint64_t address;
    uint64_t value; /* a 32-bit operation uses the lower 32 bits */
    unsigned flags;
    uint64_t alias;
    uint64_t reserved;
};

struct cuda_words_node {
    struct context *context;
    unsigned count;
    struct cuda_word_operation *operations;
    unsigned flags;
};

/* A node of any kind. */
struct cuda_node {
    int type; /* enum cuda_node_type */
    int reserved[3];
    union {
        long long size[29];
        struct cuda_kernel_node kernel;
        struct {
            int flags, reserved;
            struct context *context;
            struct cuda_copy_3d copy;
        } copy;
        struct {
            struct cuda_fill_node fill;
            struct context *context;
        } fill;
        struct cuda_host_node host;
        struct graph *graph;
        struct event *event;
        struct cuda_allocation_node allocation;
        uint64_t address;
        struct cuda_words_node words;
    };
    long long reserved_end;
};

struct cuda_edge {
    unsigned char from_port, to_port, type, reserved[5];
};

enum cuda_instantiate_flags {
    CUDA_INSTANTIATE_AUTO_FREE = 1,
    CUDA_INSTANTIATE_UPLOAD = 2,
    CUDA_INSTANTIATE_DEVICE_LAUNCH = 4,
    CUDA_INSTANTIATE_USE_NODE_PRIORITY = 8,
};

struct cuda_instantiate {
    uint64_t flags;
    struct stream *upload_stream;
    struct graph_node *ret_error_node;
    int ret_result;
};

enum cuda_update_result {
    CUDA_UPDATE_SUCCESS = 0,
    CUDA_UPDATE_TOPOLOGY_CHANGED = 2,
    CUDA_UPDATE_NODE_TYPE_CHANGED = 3,
    CUDA_UPDATE_NOT_SUPPORTED = 6,
};

struct cuda_update {
    int result; /* enum cuda_update_result */
    struct graph_node *error_node, *error_from_node;
};

enum cuda_graph_memory_attribute {
    CUDA_GRAPH_MEMORY_USED = 0,
    CUDA_GRAPH_MEMORY_USED_HIGH = 1,
    CUDA_GRAPH_MEMORY_RESERVED = 2,
    CUDA_GRAPH_MEMORY_RESERVED_HIGH = 3,
};

struct cuda_ipc_handle {
    char bytes[64];
};

enum cuda_handle_type { CUDA_HANDLE_POSIX_FD = 1 };

enum cuda_process_state {
    CUDA_PROCESS_RUNNING = 0,
    CUDA_PROCESS_LOCKED = 1,
    CUDA_PROCESS_CHECKPOINTED = 2,
    CUDA_PROCESS_FAILED = 3,
};

struct cuda_checkpoint_lock {
    unsigned timeout_ms;
    unsigned reserved0;
    uint64_t reserved1[7];
};

struct cuda_checkpoint_restore {
    void *gpu_pairs;
    unsigned gpu_pairs_count;
    char reserved[52 - sizeof(void *)];
    uint64_t reserved1;
};

struct cuda_uuid {
    char bytes[16];
};

enum cuda_proc_address_flags {
    CUDA_PROC_DEFAULT = 0,
    CUDA_PROC_LEGACY_STREAM = 1,
    CUDA_PROC_PER_THREAD_STREAM = 2,
};

enum cuda_proc_address_status {
    CUDA_PROC_FOUND = 0,
    CUDA_PROC_NOT_FOUND = 1,
    CUDA_PROC_VERSION_NOT_SUFFICIENT = 2,
};

enum cuda_device_attribute {
    CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CUDA_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    CUDA_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    CUDA_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    CUDA_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    CUDA_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    CUDA_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    CUDA_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
    CUDA_ATTRIBUTE_WARP_SIZE = 10,
    CUDA_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    CUDA_ATTRIBUTE_CLOCK_RATE = 13,
    CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CUDA_ATTRIBUTE_INTEGRATED = 18,
    CUDA_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CUDA_ATTRIBUTE_COMPUTE_MODE = 20,
    CUDA_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    CUDA_ATTRIBUTE_ECC_ENABLED = 32,
    CUDA_ATTRIBUTE_PCI_BUS_ID = 33,
    CUDA_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CUDA_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    CUDA_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    CUDA_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CUDA_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CUDA_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CUDA_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CUDA_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CUDA_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CUDA_ATTRIBUTE_STREAM_PRIORITIES = 78,
    CUDA_ATTRIBUTE_MANAGED_MEMORY = 83,
    CUDA_ATTRIBUTE_MULTI_GPU_BOARD = 84,
    CUDA_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
    CUDA_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    CUDA_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT = 102,
    CUDA_ATTRIBUTE_MEMORY_POOLS = 115,
    CUDA_ATTRIBUTE_64_BIT_STREAM_WORDS = 122,
    CUDA_ATTRIBUTE_STREAM_WAIT_NOR = 123,
    CUDA_ATTRIBUTE_LAST = 148, /* last attribute of CUDA 13.0 */
};

enum cuda_function_attribute {
    CUDA_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    CUDA_FUNCTION_SHARED_SIZE_BYTES = 1,
    CUDA_FUNCTION_CONST_SIZE_BYTES = 2,
    CUDA_FUNCTION_LOCAL_SIZE_BYTES = 3,
    CUDA_FUNCTION_NUM_REGS = 4,
    CUDA_FUNCTION_PTX_VERSION = 5,
    CUDA_FUNCTION_BINARY_VERSION = 6,
    CUDA_FUNCTION_DYNAMIC_SHARED_BYTES = 8,
    CUDA_FUNCTION_SHARED_CARVEOUT = 9,

    CUDA_SHARED_BYTES_MAX = 227 << 10, /* largest shared memory of a block, on request */
};

/* CUDA's names for these types, as in api/cuda_calls.def. A program that treats handles as plain
 * pointers defines CUDA_HANDLE before including this header. */
#ifndef CUDA_HANDLE
#define CUDA_HANDLE(word, ours) typedef struct ours *word;
#endif
CUDA_HANDLE(CUarray, array)
CUDA_HANDLE(CUcontext, context)
CUDA_HANDLE(CUevent, event)
CUDA_HANDLE(CUfunction, function)
CUDA_HANDLE(CUgraph, graph)
CUDA_HANDLE(CUgraphExec, graph_exec)
CUDA_HANDLE(CUgraphNode, graph_node)
CUDA_HANDLE(CUkernel, function)
CUDA_HANDLE(CUlibrary, module)
CUDA_HANDLE(CUmemGenericAllocationHandle, physical)
CUDA_HANDLE(CUmemoryPool, pool)
CUDA_HANDLE(CUmipmappedArray, mipmapped_array)
CUDA_HANDLE(CUmodule, module)
CUDA_HANDLE(CUstream, stream)
CUDA_HANDLE(CUuserObject, user_object)
typedef uint64_t CUdeviceptr;
typedef int CUresult, CUdevice;
typedef int CUdevice_attribute, CUdriverProcAddressQueryResult, CUfunc_cache, CUfunction_attribute;
typedef int CUfunctionLoadingState, CUgraphExecUpdateResult, CUgraphMem_attribute, CUgraphNodeType;
typedef int CUjit_option, CUlibraryOption, CUlimit, CUmem_advise, CUmemAccess_flags;
typedef int CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationType;
typedef int CUmemPool_attribute, CUmoduleLoadingMode, CUpointer_attribute, CUprocessState;
typedef int CUstreamAttrID, CUstreamCaptureMode, CUstreamCaptureStatus;
typedef void *CUgreenCtx;
typedef void CUcheckpointCheckpointArgs, CUcheckpointUnlockArgs, CUctxCreateParams;
typedef void CUexecAffinityParam, CUstreamAttrValue;
typedef void (*CUhostFn)(void *);
typedef size_t (*CUoccupancyB2DSize)(int);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
typedef struct cuda_access CUmemAccessDesc;
typedef struct cuda_allocation_node CUDA_MEM_ALLOC_NODE_PARAMS;
typedef struct cuda_allocation_properties CUmemAllocationProp;
typedef struct cuda_array_3d_descriptor CUDA_ARRAY3D_DESCRIPTOR;
typedef struct cuda_array_descriptor CUDA_ARRAY_DESCRIPTOR;
typedef struct cuda_checkpoint_lock CUcheckpointLockArgs;
typedef struct cuda_checkpoint_restore CUcheckpointRestoreArgs;
typedef struct cuda_copy_2d CUDA_MEMCPY2D;
typedef struct cuda_copy_3d CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER;
typedef struct cuda_edge CUgraphEdgeData;
typedef struct cuda_fill_node CUDA_MEMSET_NODE_PARAMS;
typedef struct cuda_host_node CUDA_HOST_NODE_PARAMS;
typedef struct cuda_instantiate CUDA_GRAPH_INSTANTIATE_PARAMS;
typedef struct cuda_ipc_handle CUipcMemHandle, CUipcEventHandle;
typedef struct cuda_kernel_node CUDA_KERNEL_NODE_PARAMS_v1, CUDA_KERNEL_NODE_PARAMS;
typedef struct cuda_launch_config CUlaunchConfig;
typedef struct cuda_location CUmemLocation;
typedef struct cuda_node CUgraphNodeParams;
typedef struct cuda_pool_properties CUmemPoolProps;
typedef struct cuda_update CUgraphExecUpdateResultInfo;
typedef struct cuda_uuid CUuuid;
typedef struct cuda_word_operation CUstreamBatchMemOpParams;
typedef struct cuda_words_node CUDA_BATCH_MEM_OP_NODE_PARAMS;
