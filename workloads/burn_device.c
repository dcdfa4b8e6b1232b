#include "workloads/burn_device.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "abi/cuda.h"
#include "base/library.h"

#define DRIVER_CALLS(CALL)                                                                         \
    CALL(cuInit)                                                                                   \
    CALL(cuDeviceGetAttribute)                                                                     \
    CALL(cuDevicePrimaryCtxRetain)                                                                 \
    CALL(cuDevicePrimaryCtxRelease_v2)                                                             \
    CALL(cuCtxSetCurrent)                                                                          \
    CALL(cuCtxSynchronize)                                                                         \
    CALL(cuModuleLoadData)                                                                         \
    CALL(cuModuleGetFunction)                                                                      \
    CALL(cuStreamCreate)                                                                           \
    CALL(cuEventCreate)                                                                            \
    CALL(cuEventRecord)                                                                            \
    CALL(cuEventQuery)                                                                             \
    CALL(cuEventSynchronize)                                                                       \
    CALL(cuEventElapsedTime)                                                                       \
    CALL(cuMemAlloc_v2)                                                                            \
    CALL(cuMemGetInfo_v2)                                                                          \
    CALL(cuLaunchKernel)                                                                           \
    CALL(cuStreamBeginCapture_v2)                                                                  \
    CALL(cuStreamEndCapture)                                                                       \
    CALL(cuGraphInstantiateWithFlags)                                                              \
    CALL(cuGraphDestroy)                                                                           \
    CALL(cuGraphExecDestroy)                                                                       \
    CALL(cuGraphLaunch)                                                                            \
    CALL(cuGetErrorName)

enum {
    CUDA_ATTRIBUTE_SMS = 16,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_CAPTURE_THREAD_LOCAL = 1,
    BLOCK_THREADS = 1024,
};

struct burn_device {
    CUfunction function;
    CUstream stream;
    CUgraphExec graph; /* NULL: none */
    CUevent events[BURN_MARKS];
    unsigned sms;
    CUdeviceptr buffer;
    uint64_t buffer_bytes;
    double speed;
    bool is_open;
    struct {
        DRIVER_CALLS(CALL_MEMBER)
    };
};

/* burn.ptx, with a NUL at its end. */
__asm__(".pushsection .rodata\n"
        ".global burn_ptx\n"
        "burn_ptx: .incbin \"" BURN_PTX_PATH "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char burn_ptx[] __attribute__((visibility("hidden")));

static int load(struct error *e, struct burn_device *device)
{
    struct library library = library_load(CUDA_SONAME, CALL_NAMES(DRIVER_CALLS), &device->cuInit);
    if (!library.handle)
        return error_set(e, ERR_NO_DEVICE,
                         "no CUDA driver: %s. Install the NVIDIA driver, or add the emulated "
                         "driver's directory (lib/gpumux/emu) to LD_LIBRARY_PATH",
                         dlerror());
    if (library.missing)
        return error_set(e, ERR_UNSUPPORTED, "the CUDA driver has no %s: it is too old",
                         library.missing);
    return 0;
}

static int failed(struct error *e, const struct burn_device *device, const char *call, int result)
{
    const char *name = NULL;
    if (device->cuGetErrorName(result, &name) != 0 || !name)
        name = "unknown error";
    return error_set(e, ERR_IO, "%s failed: %s (%d)", call, name, result);
}

static int take_memory(struct error *e, struct burn_device *device, size_t bytes)
{
    if (bytes == 0)
        return 0;
    int result = device->cuMemAlloc_v2(&device->buffer, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        size_t free_bytes = 0, total_bytes = 0;
        (void)device->cuMemGetInfo_v2(&free_bytes, &total_bytes);
        return error_set(e, ERR_NO_MEMORY,
                         "out of device memory: %zu MiB wanted, %zu MiB free. Choose a smaller "
                         "--batch or --memory",
                         bytes >> 20, free_bytes >> 20);
    }
    if (result != 0)
        return failed(e, device, "cuMemAlloc", result);
    device->buffer_bytes = bytes;
    return 0;
}

static int prepare(struct error *e, struct burn_device *device)
{
    CUcontext context;
    CUmodule module;
    int sms, result = device->cuInit(0);
    if (result != 0) {
        failed(e, device, "cuInit", result);
        return error_set(e, ERR_NO_DEVICE,
                         "no usable device (cuInit returned %d): check CUDA_VISIBLE_DEVICES",
                         result);
    }
    if ((result = device->cuDeviceGetAttribute(&sms, CUDA_ATTRIBUTE_SMS, 0)) != 0)
        return failed(e, device, "cuDeviceGetAttribute", result);
    if ((result = device->cuDevicePrimaryCtxRetain(&context, 0)) != 0)
        return failed(e, device, "cuDevicePrimaryCtxRetain", result);
    device->is_open = true;
    device->sms = (unsigned)sms;
    if ((result = device->cuCtxSetCurrent(context)) != 0)
        return failed(e, device, "cuCtxSetCurrent", result);
    if ((result = device->cuModuleLoadData(&module, burn_ptx)) != 0)
        return failed(e, device, "cuModuleLoadData", result);
    if ((result = device->cuModuleGetFunction(&device->function, module, "gpumux_burn")) != 0)
        return failed(e, device, "cuModuleGetFunction", result);
    if ((result = device->cuStreamCreate(&device->stream, CUDA_STREAM_NON_BLOCKING)) != 0)
        return failed(e, device, "cuStreamCreate", result);
    for (unsigned i = 0; i < BURN_MARKS; i++) {
        if ((result = device->cuEventCreate(&device->events[i], 0)) != 0)
            return failed(e, device, "cuEventCreate", result);
    }
    return 0;
}

static double emulated_speed(void)
{
    const char *speed = getenv("GPUMUX_EMU_SPEED");
    if ((!getenv("GPUMUX_EMU") && !getenv("GPUMUX_EMU_DEVICES")) || !speed)
        return 1;
    double value = strtod(speed, NULL);
    return isfinite(value) && value > 0 ? value : 1;
}

int burn_device_open(struct error *e, size_t memory_bytes, struct burn_device **ret_device)
{
    struct burn_device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    int r = load(e, device);
    if (r == 0)
        r = prepare(e, device);
    if (r == 0)
        r = take_memory(e, device, memory_bytes);
    if (r < 0) {
        burn_device_close(device);
        return r;
    }
    device->speed = emulated_speed();
    *ret_device = device;
    return 0;
}

/* The driver stays loaded: it has threads and exit handlers of its own. */
void burn_device_close(struct burn_device *device)
{
    if (!device)
        return;
    if (device->is_open) {
        (void)device->cuCtxSynchronize();
        if (device->graph)
            (void)device->cuGraphExecDestroy(device->graph);
        (void)device->cuDevicePrimaryCtxRelease_v2(0);
    }
    free(device);
}

void burn_device_abandon(struct burn_device *device)
{
    free(device);
}

double burn_device_speed(const struct burn_device *device)
{
    return device->speed;
}

int burn_device_launch(struct error *e, struct burn_device *device,
                       const struct burn_kernel *kernel)
{
    unsigned sm_permille = (unsigned)lround(kernel->sm_percent * 10);
    unsigned dram_permille = (unsigned)lround(kernel->dram_percent * 10);
    unsigned blocks = (device->sms * sm_permille + 500) / 1000;
    double waves = kernel->block_ms > 0 ? round(kernel->duration_ms / kernel->block_ms) : 1;
    if (blocks == 0)
        blocks = 1;
    if (waves < 1)
        waves = 1;
    uint64_t block_ns = (uint64_t)llround(kernel->duration_ms * 1e6 / waves);
    void *parameters[] = {&sm_permille, &dram_permille, &block_ns, &device->buffer,
                          &device->buffer_bytes};
    int result = device->cuLaunchKernel(device->function, blocks * (unsigned)waves, 1, 1,
                                        BLOCK_THREADS, 1, 1, 0, device->stream, parameters, NULL);
    return result == 0 ? 0 : failed(e, device, "cuLaunchKernel", result);
}

/* Launches the kernels between the begin and the end of a capture. */
static int capture_kernels(struct error *e, struct burn_device *device,
                           const struct burn_kernels *kernels, CUgraph *ret_graph)
{
    int r = 0, result = device->cuStreamBeginCapture_v2(device->stream, CUDA_CAPTURE_THREAD_LOCAL);
    if (result != 0)
        return failed(e, device, "cuStreamBeginCapture", result);
    for (size_t i = 0; r == 0 && i < kernels->count; i++)
        r = burn_device_launch(e, device, &kernels->list[i]);
    result = device->cuStreamEndCapture(device->stream, ret_graph);
    if (r == 0 && result != 0)
        r = failed(e, device, "cuStreamEndCapture", result);
    return r;
}

int burn_device_make_graph(struct error *e, struct burn_device *device,
                           const struct burn_kernels *kernels)
{
    CUgraph graph = NULL;
    CUgraphExec instance = NULL;
    int r = capture_kernels(e, device, kernels, &graph);
    if (r < 0)
        return r;
    int result = device->cuGraphInstantiateWithFlags(&instance, graph, 0);
    (void)device->cuGraphDestroy(graph);
    if (result != 0)
        return failed(e, device, "cuGraphInstantiateWithFlags", result);
    if (device->graph)
        (void)device->cuGraphExecDestroy(device->graph);
    device->graph = instance;
    return 0;
}

int burn_device_launch_graph(struct error *e, struct burn_device *device)
{
    int result = device->cuGraphLaunch(device->graph, device->stream);
    return result == 0 ? 0 : failed(e, device, "cuGraphLaunch", result);
}

int burn_device_mark(struct error *e, struct burn_device *device, unsigned mark)
{
    int result = device->cuEventRecord(device->events[mark], device->stream);
    return result == 0 ? 0 : failed(e, device, "cuEventRecord", result);
}

int burn_device_wait(struct error *e, struct burn_device *device, unsigned mark)
{
    int result = device->cuEventSynchronize(device->events[mark]);
    return result == 0 ? 0 : failed(e, device, "cuEventSynchronize", result);
}

bool burn_device_is_reached(struct burn_device *device, unsigned mark)
{
    return device->cuEventQuery(device->events[mark]) == 0;
}

int burn_device_elapsed_ms(struct error *e, struct burn_device *device, unsigned from, unsigned to,
                           double *ret_ms)
{
    float ms;
    int result = device->cuEventElapsedTime(&ms, device->events[from], device->events[to]);
    if (result != 0)
        return failed(e, device, "cuEventElapsedTime", result);
    *ret_ms = ms;
    return 0;
}
