/* A workload with managed memory, which no driver can suspend, for suspend.sh: prints one line per
 * step, forever. */
#include <stdio.h>
#include <unistd.h>

#include "abi/cuda.h"
#include "base/library.h"

#define CALLS(CALL)                                                                                \
    CALL(cuInit)                                                                                   \
    CALL(cuDeviceGet)                                                                              \
    CALL(cuDevicePrimaryCtxRetain)                                                                 \
    CALL(cuCtxSetCurrent)                                                                          \
    CALL(cuMemAllocManaged)                                                                        \
    CALL(cuCtxSynchronize)

enum { BYTES = 1 << 20, ATTACH_GLOBAL = 1, STEP_US = 20000 };

int main(void)
{
    struct {
        CALLS(CALL_MEMBER)
    } d;
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    if (library_load(CUDA_SONAME, CALL_NAMES(CALLS), &d).missing || d.cuInit(0) != 0 ||
        d.cuDeviceGet(&device, 0) != 0 || d.cuDevicePrimaryCtxRetain(&context, device) != 0 ||
        d.cuCtxSetCurrent(context) != 0 || d.cuMemAllocManaged(&memory, BYTES, ATTACH_GLOBAL) != 0)
        return 1;
    for (unsigned long long samples = 1; d.cuCtxSynchronize() == 0; samples++) {
        printf("samples=%llu\n", samples);
        fflush(stdout);
        usleep(STEP_US);
    }
    return 1;
}
