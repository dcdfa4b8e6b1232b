/* The part of libcuda.so.1 that cold_launch.c and the shim need, for a device that completes
 * everything at once: the time of a launch is the time that the shim adds. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { UUID_BYTES = 16, KERNEL_NS = 4400 };

#define CALL(name, ...)                                                                            \
    __attribute__((visibility("default"))) int name(__VA_ARGS__);                                  \
    int name(__VA_ARGS__)
#define CALL_SUCCEEDS(name)                                                                        \
    extern int name(void) __attribute__((alias("succeed"), visibility("default")));

int succeed(void);
int succeed(void)
{
    return 0;
}
CALL_SUCCEEDS(cuInit)
CALL_SUCCEEDS(cuCtxSynchronize)
CALL_SUCCEEDS(cuThreadExchangeStreamCaptureMode)
CALL_SUCCEEDS(cuMemHostRegister_v2)
CALL_SUCCEEDS(cuMemHostUnregister)
CALL_SUCCEEDS(cuStreamWaitValue32_v2)
CALL_SUCCEEDS(cuEventDestroy_v2)
CALL_SUCCEEDS(cuEventRecord)
CALL_SUCCEEDS(cuEventQuery)
CALL_SUCCEEDS(cuLaunchKernel)

static _Alignas(16) char context, event; /* aligned like memory of a driver */

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

CALL(cuCtxGetCurrent, void **ret)
{
    *ret = &context;
    return 0;
}

CALL(cuCtxGetDevice, int *ret)
{
    *ret = 0;
    return 0;
}

CALL(cuMemHostGetDevicePointer_v2, uint64_t *ret, void *page)
{
    *ret = (uint64_t)(uintptr_t)page;
    return 0;
}

CALL(cuStreamWriteValue64_v2, void *stream, uint64_t address, uint64_t value)
{
    (void)stream;
    *(volatile uint64_t *)(uintptr_t)address = value;
    return 0;
}

CALL(cuEventCreate, void **ret)
{
    *ret = &event;
    return 0;
}

CALL(cuEventElapsedTime, float *ret_ms)
{
    *ret_ms = (float)KERNEL_NS / 1e6F;
    return 0;
}
