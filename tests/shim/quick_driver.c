/* As much of a libcuda.so.1 as quick_close.c and the shim need, of a device that has done
 * everything at once. It counts what reaches it. A stream that is made has the handle of the one
 * that was destroyed last, and it can be used after a fork. */
#include "tests/shim/quick_driver.h"

#include <stddef.h>
#include <string.h>

enum { CONTEXTS_MAX = 8, STREAMS_MAX = 128, STACK_MAX = 8, INVALID_VALUE = 1, UUID_BYTES = 16 };

#define CALL(name, ...)                                                                            \
    int name(__VA_ARGS__);                                                                         \
    int name(__VA_ARGS__)
#define CALL_SUCCEEDS(name)                                                                        \
    CALL(name, void)                                                                               \
    {                                                                                              \
        return 0;                                                                                  \
    }

struct context {
    _Alignas(16) char unused;
};

struct stream {
    _Alignas(16) struct context *context; /* NULL: there is none */
    int is_capturing;
};

static struct quick_driver seen = {.kernel_ns = 4400};
static struct context contexts[CONTEXTS_MAX];
static struct stream streams[STREAMS_MAX];
static struct stream *destroyed; /* last */
static int context_count;
static struct context event;
static _Thread_local struct context *stack[STACK_MAX];
static _Thread_local int depth;

struct quick_driver *quick_driver(void)
{
    return &seen;
}

CALL_SUCCEEDS(cuInit)
CALL_SUCCEEDS(cuCtxSynchronize)
CALL_SUCCEEDS(cuStreamSynchronize)
CALL_SUCCEEDS(cuThreadExchangeStreamCaptureMode)
CALL_SUCCEEDS(cuMemHostRegister_v2)
CALL_SUCCEEDS(cuMemHostUnregister)
CALL_SUCCEEDS(cuEventDestroy_v2)
CALL_SUCCEEDS(cuEventRecord)
CALL_SUCCEEDS(cuEventQuery)
CALL_SUCCEEDS(cuModuleUnload)

CALL(cuDeviceGetCount, int *ret)
{
    *ret = 1;
    return 0;
}

CALL(cuDeviceGetAttribute, int *ret)
{
    *ret = 1;
    return 0;
}

CALL(cuDeviceGetUuid_v2, char *ret)
{
    memset(ret, 1, UUID_BYTES);
    return 0;
}

CALL(cuMemGetInfo_v2, size_t *ret_free, size_t *ret_total)
{
    *ret_free = *ret_total = (size_t)1 << 30;
    return 0;
}

/* ---- contexts ---- */

CALL(cuCtxCreate_v2, struct context **ret_context, unsigned flags, int device)
{
    if (context_count == CONTEXTS_MAX)
        return INVALID_VALUE;
    stack[depth] = *ret_context = &contexts[context_count++];
    return flags != 0 || device != 0;
}

CALL(cuCtxDestroy_v2, const struct context *context)
{
    return context == NULL || seen.refuses ? INVALID_VALUE : 0;
}

CALL(cuCtxGetCurrent, struct context **ret_context)
{
    seen.asked++;
    *ret_context = stack[depth];
    return 0;
}

CALL(cuCtxSetCurrent, struct context *context)
{
    stack[depth] = context;
    return 0;
}

CALL(cuCtxPushCurrent_v2, struct context *context)
{
    stack[++depth] = context;
    return 0;
}

CALL(cuCtxPopCurrent_v2, struct context **ret_context)
{
    *ret_context = stack[depth--];
    return 0;
}

CALL(cuCtxGetDevice, int *ret_device)
{
    *ret_device = 0;
    return 0;
}

/* ---- streams ---- */

CALL(cuStreamCreate, struct stream **ret_stream, unsigned flags)
{
    struct stream *stream = destroyed;
    destroyed = NULL;
    for (int i = 0; i < STREAMS_MAX && !stream; i++)
        stream = streams[i].context ? NULL : &streams[i];
    if (!stream)
        return INVALID_VALUE;
    *stream = (struct stream){.context = stack[depth]};
    *ret_stream = stream;
    return flags > 1;
}

CALL(cuStreamDestroy_v2, struct stream *stream)
{
    stream->context = NULL;
    destroyed = stream;
    return 0;
}

CALL(cuStreamGetCtx, const struct stream *stream, struct context **ret_context)
{
    *ret_context = stream->context;
    return 0;
}

CALL(cuStreamIsCapturing, const struct stream *stream, int *ret_status)
{
    *ret_status = (uintptr_t)stream > 2 && stream->is_capturing;
    return 0;
}

CALL(cuStreamBeginCapture_v2, struct stream *stream, int mode)
{
    stream->is_capturing = 1;
    return mode != 0;
}

CALL(cuStreamEndCapture, struct stream *stream, void **ret_graph)
{
    stream->is_capturing = 0;
    *ret_graph = NULL;
    return 0;
}

CALL(cuStreamWriteValue64_v2, const void *stream, uint64_t address, uint64_t value)
{
    void (*on_mark)(void) = seen.on_mark;
    (void)stream;
    seen.on_mark = NULL;
    if (on_mark)
        on_mark();
    *(volatile uint64_t *)(uintptr_t)address = value;
    return 0;
}

CALL(cuMemHostGetDevicePointer_v2, uint64_t *ret, void *page)
{
    *ret = (uint64_t)(uintptr_t)page;
    return 0;
}

/* ---- kernels ---- */

CALL(cuModuleGetFunction, void **ret_function, void *module, const char *name)
{
    *ret_function = module;
    return name == NULL;
}

CALL(cuEventCreate, void **ret)
{
    *ret = &event;
    return 0;
}

CALL(cuEventElapsedTime, float *ret_ms)
{
    seen.measured++;
    *ret_ms = (float)seen.kernel_ns / 1e6F;
    return 0;
}

CALL(cuLaunchKernel, void)
{
    seen.launches++;
    return 0;
}

CALL(cuLaunchCooperativeKernel, void)
{
    seen.launches++;
    return 0;
}

CALL(cuLaunchKernelEx, void)
{
    seen.launches_ex++;
    return 0;
}
