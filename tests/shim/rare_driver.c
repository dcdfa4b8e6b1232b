/*
 * The part of a libcuda.so.1 that rare_program.c needs, with calls that the emulated driver lacks:
 * those from before CUDA 3.2, green contexts, copies in batches. It records the arguments of each
 * call, and returns the result that it was told (rare_driver.h). Its memory is unlimited, and
 * launches and copies have no effect.
 */
#include "tests/shim/rare_driver.h"

enum {
    DEVICES = 2,
    CONTEXTS_MAX = 32,
    STACK_MAX = 16,
    ARRAYS_MAX = 32,
    PITCH_BYTES = 512,
    ADDRESS_STEP = 4096, /* between allocations, of whatever size */
    ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
};

struct CUcontext_st {
    CUdevice device;
    _Atomic int references; /* 0: it has ended */
};

struct CUgreenCtx_st {
    struct CUcontext_st own;
};

struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR shape;
};

static struct rare_driver state;
static struct CUcontext_st primaries[DEVICES], contexts[CONTEXTS_MAX];
static struct CUgreenCtx_st greens[CONTEXTS_MAX];
static struct CUarray_st arrays[ARRAYS_MAX];
static int context_count, green_count, array_count;
static unsigned next_address = ADDRESS_STEP;
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

#define CALL(name, ...)                                                                            \
    CUresult name(__VA_ARGS__);                                                                    \
    CUresult name(__VA_ARGS__)
/* Records the call that contains it, and evaluates to the call's result. */
#define NOTE(...)                                                                                  \
    note(__func__, CALL_COUNT(__VA_ARGS__), (const uint64_t[]){RARE_WORDS(__VA_ARGS__)})

struct rare_driver *rare_driver(void)
{
    return &state;
}

static CUresult note(const char *symbol, int count, const uint64_t *arguments)
{
    state.noted++;
    state.symbol = symbol;
    state.count = count;
    for (int i = 0; i < count; i++)
        state.arguments[i] = arguments[i];
    if (state.not_ready == 0)
        return state.answer;
    state.not_ready--;
    return CUDA_ERROR_MPS_SERVER_NOT_READY;
}

static CUresult check(CUcontext context)
{
    return context && context->references > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static bool is_device(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

/* ---- other calls that the shim needs ---- */

CALL(cuInit, unsigned flags)
{
    return flags != 0;
}

CALL(cuDeviceGetAttribute, int *ret_value, CUdevice_attribute attribute, CUdevice device)
{
    *ret_value = RARE_SMS + device;
    return attribute != ATTRIBUTE_MULTIPROCESSOR_COUNT;
}

CALL(cuCtxGetCurrent, CUcontext *ret_context)
{
    *ret_context = stack[depth];
    return CUDA_SUCCESS;
}

CALL(cuCtxGetDevice, CUdevice *ret_device)
{
    CUresult r = check(stack[depth]);
    *ret_device = r == CUDA_SUCCESS ? stack[depth]->device : -1;
    return r;
}

CALL(cuCtxPushCurrent_v2, CUcontext context)
{
    if (depth + 1 == STACK_MAX || check(context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[++depth] = context;
    return CUDA_SUCCESS;
}

CALL(cuCtxPopCurrent_v2, CUcontext *ret_context)
{
    *ret_context = stack[depth--];
    return CUDA_SUCCESS;
}

CALL(cuCtxSynchronize, void)
{
    return check(stack[depth]);
}

CALL(cuDevicePrimaryCtxGetState, CUdevice device, unsigned *ret_flags, int *ret_active)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *ret_flags = 0;
    *ret_active = primaries[device].references > 0;
    return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxRetain, CUcontext *ret_context, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    primaries[device].device = device;
    primaries[device].references++;
    *ret_context = &primaries[device];
    return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    primaries[device].references--;
    return CUDA_SUCCESS;
}

CALL(cuCtxFromGreenCtx, CUcontext *ret_context, CUgreenCtx green)
{
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    *ret_context = &green->own;
    return CUDA_SUCCESS;
}

CALL(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR *ret_shape, CUarray array)
{
    if (!array)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_shape = array->shape;
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CALL(cuCtxCreate, CUcontext *ret_context, unsigned flags, CUdevice device)
{
    CUresult r = NOTE(ret_context, flags, device);
    if (r != CUDA_SUCCESS || !is_device(device))
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_DEVICE;
    CUcontext made = &contexts[context_count++];
    made->device = device;
    made->references = 1;
    *ret_context = made;
    return cuCtxPushCurrent_v2(made);
}

static CUresult end(CUcontext context)
{
    if (check(context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_CONTEXT;
    context->references = 0;
    if (stack[depth] == context)
        depth--;
    return CUDA_SUCCESS;
}

CALL(cuCtxDestroy, CUcontext context)
{
    CUresult r = NOTE(context);
    return r == CUDA_SUCCESS ? end(context) : r;
}

CALL(cuCtxDetach, CUcontext context)
{
    CUresult r = NOTE(context);
    return r == CUDA_SUCCESS ? end(context) : r;
}

CALL(cuGreenCtxCreate, CUgreenCtx *ret_green, CUdevResourceDesc resources, CUdevice device,
     unsigned flags)
{
    CUresult r = NOTE(ret_green, resources, device, flags);
    if (r != CUDA_SUCCESS || !is_device(device))
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_DEVICE;
    CUgreenCtx made = &greens[green_count++];
    made->own.device = device;
    made->own.references = 1;
    primaries[device].references++;
    *ret_green = made;
    return CUDA_SUCCESS;
}

CALL(cuGreenCtxDestroy, CUgreenCtx green)
{
    CUresult r = NOTE(green);
    if (r != CUDA_SUCCESS || !green)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_CONTEXT;
    primaries[green->own.device].references--;
    return end(&green->own);
}

/* ---- memory ---- */

static CUresult allocate(unsigned *ret_address)
{
    if (ret_address)
        *ret_address = next_address;
    next_address += ADDRESS_STEP;
    return check(stack[depth]);
}

CALL(cuMemAlloc, unsigned *ret_address, unsigned bytes)
{
    CUresult r = NOTE(ret_address, bytes);
    return r == CUDA_SUCCESS ? allocate(ret_address) : r;
}

CALL(cuMemAllocPitch, unsigned *ret_address, unsigned *ret_pitch, unsigned width, unsigned height,
     unsigned element_bytes)
{
    CUresult r = NOTE(ret_address, ret_pitch, width, height, element_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    *ret_pitch = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
    return allocate(ret_address);
}

CALL(cuMemFree, unsigned address)
{
    return NOTE(address);
}

CALL(cuMemGetInfo, unsigned *ret_free, unsigned *ret_total)
{
    CUresult r = NOTE(ret_free, ret_total);
    if (r != CUDA_SUCCESS)
        return r;
    *ret_free = RARE_FREE_BYTES;
    *ret_total = RARE_TOTAL_BYTES;
    return check(stack[depth]);
}

CALL(cuDeviceTotalMem, unsigned *ret_bytes, CUdevice device)
{
    CUresult r = NOTE(ret_bytes, device);
    if (r == CUDA_SUCCESS)
        *ret_bytes = RARE_TOTAL_BYTES;
    return r;
}

static CUresult make_array(CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    CUarray made = &arrays[array_count++];
    made->shape = *shape;
    *ret_array = made;
    return check(stack[depth]);
}

CALL(cuArrayCreate, CUarray *ret_array, const CUDA_ARRAY_DESCRIPTOR_v1 *flat)
{
    CUresult r = NOTE(ret_array, flat);
    if (r != CUDA_SUCCESS)
        return r;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = flat->Width,
                                           .Height = flat->Height,
                                           .Format = flat->Format,
                                           .NumChannels = flat->NumChannels};
    return make_array(ret_array, &shape);
}

CALL(cuArray3DCreate, CUarray *ret_array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *old)
{
    CUresult r = NOTE(ret_array, old);
    if (r != CUDA_SUCCESS)
        return r;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = old->Width,
                                           .Height = old->Height,
                                           .Depth = old->Depth,
                                           .Format = old->Format,
                                           .NumChannels = old->NumChannels,
                                           .Flags = old->Flags};
    return make_array(ret_array, &shape);
}

CALL(cuArrayDestroy, CUarray array)
{
    return NOTE(array);
}

/* ---- launches ---- */

CALL(cuLaunch, CUfunction function)
{
    return NOTE(function);
}

CALL(cuLaunchGrid, CUfunction function, int width, int height)
{
    return NOTE(function, width, height);
}

CALL(cuLaunchGridAsync, CUfunction function, int width, int height, CUstream stream)
{
    return NOTE(function, width, height, stream);
}

CALL(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *launches, unsigned count,
     unsigned flags)
{
    return NOTE(launches, count, flags);
}

/* ---- copies ---- */

#define BATCH(symbol)                                                                              \
    CALL(symbol, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,                  \
         CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count,                  \
         size_t *ret_failed, CUstream stream)                                                      \
    {                                                                                              \
        return NOTE(to, from, sizes, count, attributes, indices, attribute_count, ret_failed,      \
                    stream);                                                                       \
    }
#define BATCH_V2(symbol)                                                                           \
    CALL(symbol, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,                  \
         CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count, CUstream stream) \
    {                                                                                              \
        return NOTE(to, from, sizes, count, attributes, indices, attribute_count, stream);         \
    }
#define BATCH_3D(symbol)                                                                           \
    CALL(symbol, size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *ret_failed,                 \
         unsigned long long flags, CUstream stream)                                                \
    {                                                                                              \
        return NOTE(count, copies, ret_failed, flags, stream);                                     \
    }
#define BATCH_3D_V2(symbol)                                                                        \
    CALL(symbol, size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags,           \
         CUstream stream)                                                                          \
    {                                                                                              \
        return NOTE(count, copies, flags, stream);                                                 \
    }
BATCH(cuMemcpyBatchAsync)
BATCH(cuMemcpyBatchAsync_ptsz)
BATCH_V2(cuMemcpyBatchAsync_v2)
BATCH_V2(cuMemcpyBatchAsync_v2_ptsz)
BATCH_3D(cuMemcpy3DBatchAsync)
BATCH_3D(cuMemcpy3DBatchAsync_ptsz)
BATCH_3D_V2(cuMemcpy3DBatchAsync_v2)
BATCH_3D_V2(cuMemcpy3DBatchAsync_v2_ptsz)
