/* The emulated driver through its real libraries, in one process. Times are emulated times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emu/driver_api.h"

static struct driver_api api;

static float elapsed_ms(void *start, void *end)
{
    float ms = -1;
    assert_int_equal(api.cuEventElapsedTime(&ms, start, end), CUDA_SUCCESS);
    return ms;
}

static void close_to(double value, double expected, double tolerance)
{
    if (value < expected - tolerance || value > expected + tolerance)
        fail_msg("%g is not %g ± %g", value, expected, tolerance);
}

/* Tests that need several operations queued at one time run a kernel before them, and start again
 * if that kernel ended, on a slow machine, before the last operation was queued. */
#define HEAD_START_NS UINT64_C(20000000)

static bool too_late(void *start)
{
    return api.cuEventQuery(start) == CUDA_SUCCESS;
}

static void devices_match_device_file(void **state)
{
    (void)state;
    int count, value;
    char name[64];
    size_t bytes;
    assert_int_equal(api.cuDeviceGetCount(&count), CUDA_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(api.cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
    assert_string_equal(name, "NVIDIA H200");
    assert_int_equal(api.cuDeviceTotalMem_v2(&bytes, 0), CUDA_SUCCESS);
    assert_int_equal(bytes, (size_t)24 << 30);
    assert_int_equal(api.cuDeviceGetAttribute(&value, CUDA_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1),
                     CUDA_SUCCESS);
    assert_int_equal(value, 40);
    assert_int_equal(api.cuDeviceGetName(name, sizeof(name), 2), CUDA_ERROR_INVALID_DEVICE);
}

static void serial_kernel_durations_add_up(void **state)
{
    (void)state;
    void *start, *end;
    assert_int_equal(api.cuEventCreate(&start, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventCreate(&end, 0), CUDA_SUCCESS);
    do {
        assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, NULL, 1000, 100, HEAD_START_NS), CUDA_SUCCESS);
        assert_int_equal(api.cuEventRecord(start, NULL), CUDA_SUCCESS);
        for (int i = 0; i < 10; i++)
            assert_int_equal(driver_api_burn(&api, NULL, 1000, 100, 3000000), CUDA_SUCCESS);
        assert_int_equal(api.cuEventRecord(end, NULL), CUDA_SUCCESS);
    } while (too_late(start));
    assert_int_equal(api.cuEventQuery(end), CUDA_ERROR_NOT_READY);
    assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
    close_to(elapsed_ms(start, end), 30, 0.001);
    api.cuEventDestroy_v2(start);
    api.cuEventDestroy_v2(end);
}

static void small_kernels_in_two_streams_overlap(void **state)
{
    (void)state;
    void *streams[2], *start, *ends[2], *gate;
    assert_int_equal(api.cuEventCreate(&start, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamCreate(&gate, CUDA_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(api.cuEventCreate(&ends[i], 0), CUDA_SUCCESS);
        assert_int_equal(api.cuStreamCreate(&streams[i], CUDA_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
    do { /* both wait for one event, so they start at the same time */
        assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, gate, 10, 0, HEAD_START_NS), CUDA_SUCCESS);
        assert_int_equal(api.cuEventRecord(start, gate), CUDA_SUCCESS);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(api.cuStreamWaitEvent(streams[i], start, 0), CUDA_SUCCESS);
            assert_int_equal(driver_api_burn(&api, streams[i], 300, 0, 10000000), CUDA_SUCCESS);
            assert_int_equal(api.cuEventRecord(ends[i], streams[i]), CUDA_SUCCESS);
        }
    } while (too_late(start));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(api.cuEventSynchronize(ends[i]), CUDA_SUCCESS);
        close_to(elapsed_ms(start, ends[i]), 10, 0.001);
        api.cuEventDestroy_v2(ends[i]);
        assert_int_equal(api.cuStreamDestroy_v2(streams[i]), CUDA_SUCCESS);
    }
    api.cuEventDestroy_v2(start);
    api.cuStreamDestroy_v2(gate);
}

static void legacy_stream_waits_for_blocking_streams(void **state)
{
    (void)state;
    void *stream, *start, *end;
    assert_int_equal(api.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventCreate(&start, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventCreate(&end, 0), CUDA_SUCCESS);
    do {
        assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, stream, 100, 0, HEAD_START_NS), CUDA_SUCCESS);
        assert_int_equal(api.cuEventRecord(start, stream), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, stream, 100, 0, 7000000), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, NULL, 100, 0, 5000000), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, stream, 100, 0, 3000000), CUDA_SUCCESS);
        assert_int_equal(api.cuEventRecord(end, stream), CUDA_SUCCESS);
    } while (too_late(start));
    assert_int_equal(api.cuEventSynchronize(end), CUDA_SUCCESS);
    close_to(elapsed_ms(start, end), 15, 0.001);
    api.cuEventDestroy_v2(start);
    api.cuEventDestroy_v2(end);
    api.cuStreamDestroy_v2(stream);
}

static void launches_beyond_queue_size_all_run(void **state)
{
    (void)state;
    void *start, *end;
    assert_int_equal(api.cuEventCreate(&start, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventCreate(&end, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventRecord(start, NULL), CUDA_SUCCESS);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(driver_api_burn(&api, NULL, 1000, 0, 100000), CUDA_SUCCESS);
    assert_int_equal(api.cuEventRecord(end, NULL), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_true(elapsed_ms(start, end) >= 199.99f);
    api.cuEventDestroy_v2(start);
    api.cuEventDestroy_v2(end);
}

static void device_memory_is_accounted_and_bounded(void **state)
{
    (void)state;
    size_t before, now, total;
    uint64_t a, b;
    assert_int_equal(api.cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    assert_int_equal(total, (size_t)24 << 30);
    assert_int_equal(api.cuMemAlloc_v2(&a, (size_t)20 << 30), CUDA_SUCCESS);
    assert_int_equal(api.cuMemAlloc_v2(&b, (size_t)5 << 30), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(api.cuMemAlloc_v2(&b, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
    assert_int_equal(before - now, (size_t)20 << 30);
    assert_int_equal(api.cuMemFree_v2(a + 4096), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(api.cuMemFree_v2(a), CUDA_SUCCESS);
    assert_int_equal(api.cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
    assert_int_equal(now, before);
}

static void async_free_follows_stream_order(void **state)
{
    (void)state;
    size_t before, now, total;
    uint64_t a;
    assert_int_equal(api.cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    do {
        assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(api.cuMemAllocAsync(&a, 64 << 20, NULL), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, NULL, 1000, 0, HEAD_START_NS), CUDA_SUCCESS);
        assert_int_equal(api.cuMemFreeAsync(a, NULL), CUDA_SUCCESS);
        assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
    } while (api.cuStreamQuery(NULL) == CUDA_SUCCESS);
    assert_int_equal(before - now, 64 << 20);
    assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
    assert_int_equal(now, before);
}

static void copied_bytes_return_unchanged(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    uint64_t a, b;
    unsigned char *host;
    assert_int_equal(api.cuMemAllocHost_v2((void **)&host, BYTES), CUDA_SUCCESS);
    assert_int_equal(api.cuMemAlloc_v2(&a, BYTES), CUDA_SUCCESS);
    assert_int_equal(api.cuMemAlloc_v2(&b, BYTES), CUDA_SUCCESS);
    for (int i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i * 7);
    assert_int_equal(api.cuMemcpyHtoD_v2(a, host, BYTES), CUDA_SUCCESS);
    assert_int_equal(api.cuMemcpyDtoD_v2(b, a, BYTES), CUDA_SUCCESS);
    memset(host, 0, BYTES);
    assert_int_equal(api.cuMemcpyDtoH_v2(host, b + 10, 100), CUDA_SUCCESS);
    for (int i = 0; i < 100; i++)
        assert_int_equal(host[i], (unsigned char)((i + 10) * 7));
    assert_int_equal(api.cuMemsetD32_v2(b, 0x01020304, 4), CUDA_SUCCESS);
    assert_int_equal(api.cuMemcpyDtoH_v2(host, b, 4), CUDA_SUCCESS);
    assert_int_equal(host[0], 4);
    assert_int_equal(api.cuMemcpyDtoH_v2(host, b + BYTES - 1, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(api.cuMemcpyHtoD_v2(4096, host, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(api.cuMemFreeHost(host), CUDA_SUCCESS);
    assert_int_equal(api.cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    api.cuMemFree_v2(a);
    api.cuMemFree_v2(b);
}

static void streams_beyond_limit_are_refused(void **state)
{
    (void)state;
    void *streams[64];
    int made = 0, r;
    while ((r = api.cuStreamCreate(&streams[made], 0)) == CUDA_SUCCESS)
        made++;
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(made, 31);
    for (int i = 0; i < made; i++)
        assert_int_equal(api.cuStreamDestroy_v2(streams[i]), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamCreate(&streams[0], 0), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamDestroy_v2(streams[0]), CUDA_SUCCESS);
}

static void symbols_depend_on_name_and_version(void **state)
{
    (void)state;
    void *address, *other;
    int status;
    assert_int_equal(api.cuGetProcAddress("cuMemAlloc", &address, 13000, 0), CUDA_SUCCESS);
    memcpy(&other, &api.cuMemAlloc_v2, sizeof(other));
    assert_ptr_equal(address, other);
    assert_int_equal(api.cuGetProcAddress("cuNoSuchCall", &address, 13000, 0),
                     CUDA_ERROR_NOT_FOUND);
    assert_int_equal(api.cuGetProcAddress("cuLaunchKernelEx", &address, 11000, 0),
                     CUDA_ERROR_NOT_FOUND);
    /* The second version succeeds and reports that there is no such call. */
    assert_int_equal(api.cuGetProcAddress_v2("cuNoSuchCall", &address, 13000, 0, &status),
                     CUDA_SUCCESS);
    assert_null(address);
    assert_int_equal(status, CUDA_PROC_NOT_FOUND);
    assert_int_equal(api.cuGetProcAddress_v2("cuLaunchKernelEx", &address, 11000, 0, &status),
                     CUDA_SUCCESS);
    assert_null(address);
    assert_int_equal(status, CUDA_PROC_VERSION_NOT_SUFFICIENT);
    /* Known but not emulated: the function exists and returns an error. */
    assert_int_equal(api.cuGetProcAddress("cuGetExportTable", &address, 13000, 0), CUDA_SUCCESS);
    int (*lacking)(void);
    memcpy(&lacking, &address, sizeof(lacking));
    assert_int_equal(lacking(), CUDA_ERROR_NOT_SUPPORTED);
    const char *name;
    assert_int_equal(api.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS);
    assert_string_equal(name, "CUDA_ERROR_OUT_OF_MEMORY");
}

static void invalid_modules_are_refused(void **state)
{
    (void)state;
    void *module, *function;
    assert_int_equal(api.cuModuleLoadData(&module, "hello"), CUDA_ERROR_INVALID_PTX);
    assert_int_equal(api.cuModuleLoadData(&module, "\x7f"
                                                   "ELF"),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(
        api.cuModuleLoadData(&module,
                             ".version 7.0 .target sm_80 .entry k(.param .align 8 .b8 p[24]){}"),
        CUDA_SUCCESS);
    assert_int_equal(api.cuModuleGetFunction(&function, module, "other"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(api.cuModuleGetFunction(&function, module, "k"), CUDA_SUCCESS);
    char buffer[24];
    void *parameters[] = {buffer};
    assert_int_equal(api.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, parameters, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(api.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL),
                     CUDA_SUCCESS);
    assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(api.cuModuleUnload(module), CUDA_SUCCESS);
}

static void forked_child_has_no_driver(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int count;
        bool right = api.cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                     api.cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
}

static void nvml_shows_client_and_memory(void **state)
{
    (void)state;
    unsigned count = 8;
    void *device, *same;
    char uuid[64];
    nvmlMemory_t before, now;
    nvmlProcessInfo_v2_t processes[8];
    uint64_t a;
    assert_int_equal(api.nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetHandleByUUID(uuid, &same), NVML_SUCCESS);
    assert_ptr_equal(device, same);
    assert_int_equal(api.nvmlDeviceGetMemoryInfo(device, &before), NVML_SUCCESS);
    assert_int_equal(api.cuMemAlloc_v2(&a, 100 << 20), CUDA_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetMemoryInfo(device, &now), NVML_SUCCESS);
    assert_int_equal(now.used - before.used, 100 << 20);
    assert_int_equal(api.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes),
                     NVML_SUCCESS);
    assert_int_equal(count, 1);
    assert_int_equal(processes[0].pid, getpid());
    assert_int_equal(processes[0].usedGpuMemory, now.used);
    unsigned mode, pending;
    assert_int_equal(api.nvmlDeviceGetMigMode(device, &mode, &pending), NVML_SUCCESS);
    assert_int_equal(mode, 0);
    assert_int_equal(api.nvmlShutdown(), NVML_SUCCESS);
    assert_int_equal(api.cuMemFree_v2(a), CUDA_SUCCESS);
}

static void gpm_reports_activity_between_samples(void **state)
{
    (void)state;
    void *device, *samples[2];
    assert_int_equal(api.nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(api.nvmlGpmSampleAlloc(&samples[i]), NVML_SUCCESS);
    do {
        assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
        assert_int_equal(driver_api_burn(&api, NULL, 400, 200, HEAD_START_NS), CUDA_SUCCESS);
        assert_int_equal(api.nvmlGpmSampleGet(device, samples[0]), NVML_SUCCESS);
        usleep(1000);
        assert_int_equal(api.nvmlGpmSampleGet(device, samples[1]), NVML_SUCCESS);
    } while (api.cuStreamQuery(NULL) == CUDA_SUCCESS);
    enum { METRICS = 4 };
    nvmlGpmMetricsGet_t *metrics = calloc(1, sizeof(*metrics));
    assert_non_null(metrics);
    metrics->version = NVML_GPM_VERSION;
    metrics->numMetrics = METRICS;
    metrics->sample1 = samples[0];
    metrics->sample2 = samples[1];
    const unsigned ids[METRICS] = {NVML_GPM_GRAPHICS_UTIL, NVML_GPM_SM_UTIL, NVML_GPM_DRAM_BW_UTIL,
                                   99};
    for (int i = 0; i < METRICS; i++)
        metrics->metrics[i].metricId = ids[i];
    assert_int_equal(api.nvmlGpmMetricsGet(metrics), NVML_SUCCESS);
    close_to(metrics->metrics[0].value, 100, 0.1);
    close_to(metrics->metrics[1].value, 40, 0.1);
    close_to(metrics->metrics[2].value, 20, 0.1);
    assert_int_equal(metrics->metrics[3].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
    free(metrics);
    for (int i = 0; i < 2; i++)
        api.nvmlGpmSampleFree(samples[i]);
    api.nvmlShutdown();
    assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
}

static void gpm_counts_copies_over_bus(void **state)
{
    (void)state;
    enum { METRICS = 2, BYTES = 8 << 20 };
    void *device, *samples[2], *host;
    uint64_t memory;
    assert_int_equal(api.nvmlInit_v2(), NVML_SUCCESS);
    assert_int_equal(api.nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(api.nvmlGpmSampleAlloc(&samples[i]), NVML_SUCCESS);
    assert_int_equal(api.cuMemAllocHost_v2(&host, BYTES), CUDA_SUCCESS);
    assert_int_equal(api.cuMemAlloc_v2(&memory, BYTES), CUDA_SUCCESS);
    assert_int_equal(api.nvmlGpmSampleGet(device, samples[0]), NVML_SUCCESS);
    assert_int_equal(api.cuMemcpyHtoD_v2(memory, host, BYTES), CUDA_SUCCESS);
    assert_int_equal(api.cuMemcpyDtoD_v2(memory, memory + BYTES / 2, BYTES / 4), CUDA_SUCCESS);
    assert_int_equal(api.cuMemcpyDtoH_v2(host, memory, BYTES / 4), CUDA_SUCCESS);
    assert_int_equal(api.nvmlGpmSampleGet(device, samples[1]), NVML_SUCCESS);
    nvmlGpmMetricsGet_t *metrics = calloc(1, sizeof(*metrics));
    assert_non_null(metrics);
    metrics->version = NVML_GPM_VERSION;
    metrics->numMetrics = METRICS;
    metrics->sample1 = samples[0];
    metrics->sample2 = samples[1];
    metrics->metrics[0].metricId = NVML_GPM_PCIE_RX_PER_SEC;
    metrics->metrics[1].metricId = NVML_GPM_PCIE_TX_PER_SEC;
    assert_int_equal(api.nvmlGpmMetricsGet(metrics), NVML_SUCCESS);
    assert_true(metrics->metrics[1].value > 0);
    close_to(metrics->metrics[0].value / metrics->metrics[1].value, 4, 0.001);
    free(metrics);
    for (int i = 0; i < 2; i++)
        api.nvmlGpmSampleFree(samples[i]);
    api.nvmlShutdown();
    assert_int_equal(api.cuMemFree_v2(memory), CUDA_SUCCESS);
    assert_int_equal(api.cuMemFreeHost(host), CUDA_SUCCESS);
}

static void *launch_many(void *argument)
{
    void *stream = argument, *context;
    if (api.cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        api.cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return (void *)1;
    for (int i = 0; i < 500; i++) {
        uint64_t memory;
        if (driver_api_burn(&api, stream, 100, 10, 1000) != CUDA_SUCCESS ||
            api.cuMemAllocAsync(&memory, 4096, stream) != CUDA_SUCCESS ||
            api.cuMemFreeAsync(memory, stream) != CUDA_SUCCESS)
            return (void *)1;
    }
    if (api.cuStreamSynchronize(stream) != CUDA_SUCCESS ||
        api.cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS)
        return (void *)1;
    return NULL;
}

static void threads_can_share_stream(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    void *stream;
    size_t before, now, total;
    assert_int_equal(api.cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_many, i % 2 ? stream : NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    assert_int_equal(api.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
    assert_int_equal(now, before);
    assert_int_equal(api.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

static void destroyed_context_frees_memory(void **state)
{
    (void)state;
    void *context, *primary;
    size_t before, now, total;
    uint64_t a;
    assert_int_equal(api.cuCtxGetCurrent(&primary), CUDA_SUCCESS);
    assert_int_equal(api.cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
    assert_int_equal(api.cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuMemAlloc_v2(&a, 10 << 20), CUDA_SUCCESS);
    assert_int_equal(api.cuCtxDestroy_v2(context), CUDA_SUCCESS);
    assert_int_equal(api.cuCtxDestroy_v2(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
    assert_int_equal(now, before);
    assert_int_equal(api.cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(api.cuMemGetInfo_v2(&now, &total), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(api.cuCtxSetCurrent(primary), CUDA_SUCCESS);
}

static void stream_waits_for_other_devices_event(void **state)
{
    (void)state;
    void *primary, *other, *stream, *event, *done;
    assert_int_equal(api.cuCtxGetCurrent(&primary), CUDA_SUCCESS);
    assert_int_equal(api.cuEventCreate(&event, CUDA_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(driver_api_burn(&api, NULL, 100, 0, 100000000), CUDA_SUCCESS);
    assert_int_equal(api.cuEventRecord(event, NULL), CUDA_SUCCESS);
    assert_int_equal(api.cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    assert_int_equal(api.cuCtxSetCurrent(other), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventCreate(&done, CUDA_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(api.cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
    assert_int_equal(api.cuEventRecord(done, stream), CUDA_SUCCESS);
    assert_int_equal(api.cuEventQuery(done), CUDA_ERROR_NOT_READY);
    assert_int_equal(api.cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(api.cuEventQuery(event), CUDA_SUCCESS);
    api.cuEventDestroy_v2(done);
    api.cuStreamDestroy_v2(stream);
    assert_int_equal(api.cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
    assert_int_equal(api.cuCtxSetCurrent(primary), CUDA_SUCCESS);
    api.cuEventDestroy_v2(event);
}

static void *use_own_stream(void *context)
{
    int r = api.cuCtxSetCurrent(context);
    if (r == CUDA_SUCCESS)
        r = driver_api_burn(&api, STREAM_PER_THREAD, 10, 0, 1000);
    if (r == CUDA_SUCCESS)
        r = api.cuStreamSynchronize(STREAM_PER_THREAD);
    return (void *)(intptr_t)r;
}

/* There are far more threads than a client may have streams. */
static void ended_thread_frees_own_stream(void **state)
{
    enum { THREADS = 200 };
    (void)state;
    void *primary;
    assert_int_equal(api.cuCtxGetCurrent(&primary), CUDA_SUCCESS);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *result = &thread;
        assert_int_equal(pthread_create(&thread, NULL, use_own_stream, primary), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_int_equal((int)(intptr_t)result, CUDA_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_match_device_file),
        cmocka_unit_test(serial_kernel_durations_add_up),
        cmocka_unit_test(small_kernels_in_two_streams_overlap),
        cmocka_unit_test(legacy_stream_waits_for_blocking_streams),
        cmocka_unit_test(launches_beyond_queue_size_all_run),
        cmocka_unit_test(device_memory_is_accounted_and_bounded),
        cmocka_unit_test(async_free_follows_stream_order),
        cmocka_unit_test(copied_bytes_return_unchanged),
        cmocka_unit_test(streams_beyond_limit_are_refused),
        cmocka_unit_test(symbols_depend_on_name_and_version),
        cmocka_unit_test(invalid_modules_are_refused),
        cmocka_unit_test(forked_child_has_no_driver),
        cmocka_unit_test(nvml_shows_client_and_memory),
        cmocka_unit_test(gpm_reports_activity_between_samples),
        cmocka_unit_test(gpm_counts_copies_over_bus),
        cmocka_unit_test(threads_can_share_stream),
        cmocka_unit_test(destroyed_context_frees_memory),
        cmocka_unit_test(stream_waits_for_other_devices_event),
        cmocka_unit_test(ended_thread_frees_own_stream),
    };
    driver_api_make_devices("H200:24g,T4", 0.5, 0);
    driver_api_load(&api);
    driver_api_open_device(&api);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    driver_api_remove_devices();
    return failed;
}
