/* NVML: these cases only read, and change no setting of a device. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"

enum { NO_DEVICE = 1000, NO_CLOCK = 100, NO_SENSOR = 100 };
#define LOAD_NS     UINT64_C(500000000)
#define GPM_LOAD_NS UINT64_C(1500000000)

void case_nvml_reports_system_versions(struct conformance *t)
{
    char text[96] = "";
    unsigned count = 0;
    int version = 0;
    EXPECT(t, nvmlShutdown, NVML_ERROR_UNINITIALIZED, ());
    EXPECT(t, nvmlDeviceGetCount, NVML_ERROR_UNINITIALIZED, (&count));
    EXPECT(t, nvmlDeviceGetCount_v2, NVML_ERROR_UNINITIALIZED, (&count));
    EXPECT(t, nvmlSystemGetDriverVersion, NVML_ERROR_UNINITIALIZED, (text, sizeof(text)));
    EXPECT(t, nvmlInit, NVML_SUCCESS, ());
    EXPECT(t, nvmlInit_v2, NVML_SUCCESS, ());
    EXPECT(t, nvmlInitWithFlags, NVML_SUCCESS, (0));
    EXPECT(t, nvmlShutdown, NVML_SUCCESS, ());
    EXPECT(t, nvmlShutdown, NVML_SUCCESS, ());
    const char *description = t->nvmlErrorString(NVML_ERROR_INVALID_ARGUMENT);
    conformance_note(t, CALL_nvmlErrorString, __FILE__, __LINE__, NVML_SUCCESS,
                     description && *description ? NVML_SUCCESS : NVML_ERROR_UNKNOWN);
    EXPECT(t, nvmlSystemGetDriverVersion, NVML_SUCCESS, (text, sizeof(text)));
    CHECK(t, nvmlSystemGetDriverVersion, strchr(text, '.') != NULL);
    EXPECT(t, nvmlSystemGetDriverVersion, NVML_ERROR_INSUFFICIENT_SIZE, (text, 2));
    EXPECT(t, nvmlSystemGetNVMLVersion, NVML_SUCCESS, (text, sizeof(text)));
    CHECK(t, nvmlSystemGetNVMLVersion, strchr(text, '.') != NULL);
    EXPECT(t, nvmlSystemGetNVMLVersion, NVML_ERROR_INSUFFICIENT_SIZE, (text, 2));
    EXPECT(t, nvmlSystemGetCudaDriverVersion, NVML_SUCCESS, (&version));
    CHECK(t, nvmlSystemGetCudaDriverVersion, version >= 12000);
    EXPECT(t, nvmlSystemGetCudaDriverVersion, NVML_ERROR_INVALID_ARGUMENT, (NULL));
    EXPECT(t, nvmlSystemGetCudaDriverVersion_v2, NVML_SUCCESS, (&version));
    EXPECT(t, nvmlSystemGetCudaDriverVersion_v2, NVML_ERROR_INVALID_ARGUMENT, (NULL));
    EXPECT(t, nvmlDeviceGetCount, NVML_SUCCESS, (&count));
    EXPECT(t, nvmlDeviceGetCount, NVML_ERROR_INVALID_ARGUMENT, (NULL));
    EXPECT(t, nvmlDeviceGetCount_v2, NVML_SUCCESS, (&count));
    CHECK(t, nvmlDeviceGetCount_v2, count >= 1);
    EXPECT(t, nvmlDeviceGetCount_v2, NVML_ERROR_INVALID_ARGUMENT, (NULL));
}

static void check_identity(struct conformance *t, void *device)
{
    char text[96] = "";
    void *same = NULL;
    unsigned number = 99;
    nvmlPciInfo_t pci = {0};
    EXPECT(t, nvmlDeviceGetName, NVML_SUCCESS, (device, text, sizeof(text)));
    CHECK(t, nvmlDeviceGetName, strstr(text, "NVIDIA") != NULL);
    EXPECT(t, nvmlDeviceGetName, NVML_ERROR_INSUFFICIENT_SIZE, (device, text, 2));
    EXPECT(t, nvmlDeviceGetName, NVML_ERROR_INVALID_ARGUMENT, (NULL, text, sizeof(text)));
    EXPECT(t, nvmlDeviceGetUUID, NVML_SUCCESS, (device, text, sizeof(text)));
    CHECK(t, nvmlDeviceGetUUID, strncmp(text, "GPU-", 4) == 0 && strlen(text) == 40);
    EXPECT(t, nvmlDeviceGetUUID, NVML_ERROR_INSUFFICIENT_SIZE, (device, text, 2));
    EXPECT(t, nvmlDeviceGetUUID, NVML_ERROR_INVALID_ARGUMENT, (NULL, text, sizeof(text)));
    EXPECT(t, nvmlDeviceGetUUID, NVML_SUCCESS, (device, text, sizeof(text)));
    EXPECT(t, nvmlDeviceGetHandleByUUID, NVML_SUCCESS, (text, &same));
    CHECK(t, nvmlDeviceGetHandleByUUID, same == device);
    EXPECT(t, nvmlDeviceGetHandleByUUID, NVML_ERROR_INVALID_ARGUMENT, (NULL, &same));
    EXPECT(t, nvmlDeviceGetHandleByUUID, NVML_ERROR_NOT_FOUND,
           ("GPU-00000000-0000-0000-0000-000000000001", &same));
    EXPECT(t, nvmlDeviceGetPciInfo_v3, NVML_SUCCESS, (device, &pci));
    CHECK(t, nvmlDeviceGetPciInfo_v3, strlen(pci.busId) == strlen("00000000:01:00.0"));
    EXPECT(t, nvmlDeviceGetPciInfo_v3, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetHandleByPciBusId_v2, NVML_SUCCESS, (pci.busId, &same));
    CHECK(t, nvmlDeviceGetHandleByPciBusId_v2, same == device);
    EXPECT(t, nvmlDeviceGetHandleByPciBusId_v2, NVML_ERROR_INVALID_ARGUMENT, (NULL, &same));
    EXPECT(t, nvmlDeviceGetIndex, NVML_SUCCESS, (device, &number));
    CHECK(t, nvmlDeviceGetIndex, number == 0);
    EXPECT(t, nvmlDeviceGetIndex, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetMinorNumber, NVML_SUCCESS, (device, &number));
    EXPECT(t, nvmlDeviceGetMinorNumber, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
}

static void check_capabilities(struct conformance *t, void *device)
{
    int major = 0, minor = -1, mode = -1;
    unsigned cores = 0;
    EXPECT(t, nvmlDeviceGetComputeMode, NVML_SUCCESS, (device, &mode));
    CHECK(t, nvmlDeviceGetComputeMode, mode >= 0 && mode <= 3);
    EXPECT(t, nvmlDeviceGetComputeMode, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetNumGpuCores, NVML_SUCCESS, (device, &cores));
    CHECK(t, nvmlDeviceGetNumGpuCores, cores == 132 * 128);
    EXPECT(t, nvmlDeviceGetNumGpuCores, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetCudaComputeCapability, NVML_SUCCESS, (device, &major, &minor));
    CHECK(t, nvmlDeviceGetCudaComputeCapability, major == 9 && minor == 0);
    EXPECT(t, nvmlDeviceGetCudaComputeCapability, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL, &minor));
}

static void check_sensors(struct conformance *t, void *device)
{
    unsigned value = 0;
    EXPECT(t, nvmlDeviceGetPowerUsage, NVML_SUCCESS, (device, &value));
    CHECK(t, nvmlDeviceGetPowerUsage, value > 1000);
    EXPECT(t, nvmlDeviceGetPowerUsage, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetPowerManagementLimit, NVML_SUCCESS, (device, &value));
    CHECK(t, nvmlDeviceGetPowerManagementLimit, value > 50000);
    EXPECT(t, nvmlDeviceGetPowerManagementLimit, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetEnforcedPowerLimit, NVML_SUCCESS, (device, &value));
    CHECK(t, nvmlDeviceGetEnforcedPowerLimit, value > 50000);
    EXPECT(t, nvmlDeviceGetEnforcedPowerLimit, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetTemperature, NVML_SUCCESS, (device, 0, &value));
    CHECK(t, nvmlDeviceGetTemperature, value > 0 && value < 120);
    EXPECT(t, nvmlDeviceGetTemperature, NVML_ERROR_INVALID_ARGUMENT, (device, NO_SENSOR, &value));
    EXPECT(t, nvmlDeviceGetClockInfo, NVML_SUCCESS, (device, NVML_CLOCK_SM, &value));
    CHECK(t, nvmlDeviceGetClockInfo, value > 0);
    EXPECT(t, nvmlDeviceGetClockInfo, NVML_ERROR_NOT_SUPPORTED, (device, NO_CLOCK, &value));
    EXPECT(t, nvmlDeviceGetMaxClockInfo, NVML_SUCCESS, (device, NVML_CLOCK_SM, &value));
    CHECK(t, nvmlDeviceGetMaxClockInfo, value > 1000);
    EXPECT(t, nvmlDeviceGetMaxClockInfo, NVML_ERROR_INVALID_ARGUMENT, (device, NO_CLOCK, &value));
}

void case_nvml_reports_device_identity(struct conformance *t)
{
    void *device = NULL, *same = NULL;
    EXPECT(t, nvmlInit_v2, NVML_SUCCESS, ());
    EXPECT(t, nvmlDeviceGetHandleByIndex_v2, NVML_SUCCESS, (0, &device));
    EXPECT(t, nvmlDeviceGetHandleByIndex_v2, NVML_ERROR_INVALID_ARGUMENT, (NO_DEVICE, &same));
    EXPECT(t, nvmlDeviceGetHandleByIndex, NVML_SUCCESS, (0, &same));
    CHECK(t, nvmlDeviceGetHandleByIndex, same == device);
    EXPECT(t, nvmlDeviceGetHandleByIndex, NVML_ERROR_INVALID_ARGUMENT, (NO_DEVICE, &same));
    check_identity(t, device);
    check_capabilities(t, device);
    check_sensors(t, device);
    EXPECT(t, nvmlShutdown, NVML_SUCCESS, ());
}

static void check_memory(struct conformance *t, void *device)
{
    nvmlMemory_t memory = {0};
    nvmlMemory_v2_t memory_v2 = {.version = NVML_VERSION_OF(nvmlMemory_v2_t, 2)};
    EXPECT(t, nvmlDeviceGetMemoryInfo, NVML_SUCCESS, (device, &memory));
    CHECK(t, nvmlDeviceGetMemoryInfo, memory.used >= (uint64_t)256 << 20);
    CHECK(t, nvmlDeviceGetMemoryInfo, memory.used + memory.free == memory.total);
    EXPECT(t, nvmlDeviceGetMemoryInfo, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlDeviceGetMemoryInfo_v2, NVML_SUCCESS, (device, &memory_v2));
    CHECK(t, nvmlDeviceGetMemoryInfo_v2,
          memory_v2.reserved + memory_v2.used + memory_v2.free == memory_v2.total);
    EXPECT(t, nvmlDeviceGetMemoryInfo_v2, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    memory_v2.version = 1;
    EXPECT(t, nvmlDeviceGetMemoryInfo_v2, NVML_ERROR_FUNCTION_NOT_FOUND, (device, &memory_v2));
}

/* On a real machine the pids may belong to another namespace: only their number is certain. */
static void check_processes(struct conformance *t, void *device)
{
    enum { SIZE = 64 };
    nvmlProcessInfo_v1_t processes_v1[SIZE];
    nvmlProcessInfo_v2_t processes[SIZE];
    unsigned count = SIZE;
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses_v3, NVML_SUCCESS, (device, &count, processes));
    CHECK(t, nvmlDeviceGetComputeRunningProcesses_v3, count >= 1 && count < SIZE);
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses_v3, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL, processes));
    count = 0;
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses_v3, NVML_ERROR_INSUFFICIENT_SIZE,
           (device, &count, NULL));
    CHECK(t, nvmlDeviceGetComputeRunningProcesses_v3, count >= 1);
    count = SIZE;
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses_v2, NVML_SUCCESS, (device, &count, processes));
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses_v2, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL, processes));
    count = SIZE;
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses, NVML_SUCCESS, (device, &count, processes_v1));
    CHECK(t, nvmlDeviceGetComputeRunningProcesses, count >= 1);
    EXPECT(t, nvmlDeviceGetComputeRunningProcesses, NVML_ERROR_INVALID_ARGUMENT,
           (device, NULL, processes_v1));
}

/* The load runs from before the first sample to after the last; the device may need time to start
 * counting. */
static void check_gpm_load(struct conformance *t, void *device, nvmlGpmMetricsGet_t *metrics)
{
    enum { TRIES_MAX = 5, BETWEEN_US = 200 * 1000 };
    nvmlGpmMetric_t *busy = &metrics->metrics[0];
    CHECK(t, cuLaunchKernel, conformance_burn(t, NULL, GPM_LOAD_NS) == CUDA_SUCCESS);
    for (unsigned i = 0; i < TRIES_MAX && !(busy->value > 0); i++) {
        EXPECT(t, nvmlGpmSampleGet, NVML_SUCCESS, (device, metrics->sample1));
        usleep(BETWEEN_US);
        EXPECT(t, nvmlGpmSampleGet, NVML_SUCCESS, (device, metrics->sample2));
        EXPECT(t, nvmlGpmMetricsGet, NVML_SUCCESS, (metrics));
        CHECK(t, nvmlGpmMetricsGet, busy->nvmlReturn == NVML_SUCCESS);
    }
    CHECK(t, nvmlGpmMetricsGet, busy->value > 0 && busy->value < 101);
}

static void check_gpm(struct conformance *t, void *device)
{
    nvmlGpmSupport_t support = {.version = NVML_GPM_VERSION};
    void *first = NULL, *second = NULL;
    EXPECT(t, nvmlGpmQueryDeviceSupport, NVML_SUCCESS, (device, &support));
    CHECK(t, nvmlGpmQueryDeviceSupport, support.isSupportedDevice == 1);
    EXPECT(t, nvmlGpmQueryDeviceSupport, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, nvmlGpmSampleAlloc, NVML_SUCCESS, (&first));
    EXPECT(t, nvmlGpmSampleAlloc, NVML_SUCCESS, (&second));
    EXPECT(t, nvmlGpmSampleAlloc, NVML_ERROR_INVALID_ARGUMENT, (NULL));
    nvmlGpmMetricsGet_t *metrics = calloc(1, sizeof(*metrics));
    if (!metrics)
        exit(1);
    metrics->version = NVML_GPM_VERSION;
    metrics->numMetrics = 1;
    metrics->sample1 = first;
    metrics->sample2 = second;
    metrics->metrics[0].metricId = NVML_GPM_GRAPHICS_UTIL;
    check_gpm_load(t, device, metrics);
    EXPECT(t, nvmlGpmSampleGet, NVML_ERROR_INVALID_ARGUMENT, (NULL, first));
    metrics->version = 77;
    EXPECT(t, nvmlGpmMetricsGet, NVML_ERROR_ARGUMENT_VERSION_MISMATCH, (metrics));
    free(metrics);
    EXPECT(t, nvmlGpmSampleFree, NVML_SUCCESS, (first));
    EXPECT(t, nvmlGpmSampleFree, NVML_SUCCESS, (second));
}

/* NVML's view of a process that holds memory and runs a kernel. */
void case_nvml_shows_process_load(struct conformance *t)
{
    void *device = NULL;
    uint64_t address = 0;
    nvmlUtilization_t utilization = {999, 999};
    conformance_open_device(t);
    EXPECT(t, cuMemAlloc_v2, CUDA_SUCCESS, (&address, (size_t)256 << 20));
    EXPECT(t, nvmlInit_v2, NVML_SUCCESS, ());
    EXPECT(t, nvmlDeviceGetHandleByIndex_v2, NVML_SUCCESS, (0, &device));
    CHECK(t, cuLaunchKernel, conformance_burn(t, NULL, LOAD_NS) == CUDA_SUCCESS);
    check_memory(t, device);
    check_processes(t, device);
    check_gpm(t, device);
    EXPECT(t, nvmlDeviceGetUtilizationRates, NVML_SUCCESS, (device, &utilization));
    CHECK(t, nvmlDeviceGetUtilizationRates, utilization.gpu <= 100 && utilization.memory <= 100);
    EXPECT(t, nvmlDeviceGetUtilizationRates, NVML_ERROR_INVALID_ARGUMENT, (device, NULL));
    EXPECT(t, cuCtxSynchronize, CUDA_SUCCESS, ());
}
