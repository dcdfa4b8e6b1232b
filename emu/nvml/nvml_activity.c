/* NVML: the processes that use a device, and its activity (GPM). */
#include <stdlib.h>

#include "emu/device/client.h"
#include "emu/device/mps.h"
#include "emu/nvml/nvml.h"

enum listed { LISTED_COMPUTE, LISTED_MPS, LISTED_GRAPHICS };

static void put_process(nvmlProcessInfo_v2_t *processes, unsigned size, unsigned *count,
                        int32_t pid, uint64_t bytes)
{
    if (*count < size)
        processes[*count] = (nvmlProcessInfo_v2_t){
            .pid = (unsigned)pid,
            .usedGpuMemory = bytes,
            .gpuInstanceId = NVML_NO_INSTANCE,
            .computeInstanceId = NVML_NO_INSTANCE,
        };
    (*count)++;
}

/* Copies the living clients. Returns their number, which may be larger than `size`. An MPS server
 * counts as a compute process without memory. */
static unsigned list_clients(struct device *device, enum listed listed,
                             nvmlProcessInfo_v2_t *processes, unsigned size)
{
    const struct emu_device *state = device->state;
    unsigned count = 0;
    if (listed == LISTED_GRAPHICS)
        return 0;
    device_lock_now(device);
    client_reap(device);
    if (listed == LISTED_COMPUTE && state->mps.server_pid != 0)
        put_process(processes, size, &count, state->mps.server_pid, 0);
    for (unsigned slot = 0; slot < state->clients_high; slot++) {
        const struct emu_client *client = &state->clients[slot];
        if (client->live && (listed == LISTED_COMPUTE || mps_is_client(device, client)))
            put_process(processes, size, &count, client->pid, client->memory_bytes);
    }
    device_unlock(device);
    return count;
}

static int list_v2(struct device *device, enum listed listed, unsigned *count,
                   nvmlProcessInfo_v2_t *processes)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!count || (*count > 0 && !processes)))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    unsigned size = *count;
    *count = list_clients(device, listed, processes, size);
    return *count > size ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static int list_v1(struct device *device, enum listed listed, unsigned *count,
                   nvmlProcessInfo_v1_t *processes)
{
    nvmlProcessInfo_v2_t all[EMU_CLIENTS_MAX + 1];
    unsigned all_count = EMU_CLIENTS_MAX + 1;
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!count || (*count > 0 && !processes)))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        r = list_v2(device, listed, &all_count, all);
    if (r != NVML_SUCCESS)
        return r;
    unsigned size = *count;
    *count = all_count;
    for (unsigned i = 0; i < all_count && i < size; i++)
        processes[i] =
            (nvmlProcessInfo_v1_t){.pid = all[i].pid, .usedGpuMemory = all[i].usedGpuMemory};
    return all_count > size ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* The second and the third version differ in name only. */
#define LISTING(kind, listed)                                                                      \
    NVML_API int nvmlDeviceGet##kind##RunningProcesses_v3(struct device *device, unsigned *count,  \
                                                          nvmlProcessInfo_v2_t *processes)         \
    {                                                                                              \
        return list_v2(device, listed, count, processes);                                          \
    }                                                                                              \
    NVML_API int nvmlDeviceGet##kind##RunningProcesses_v2(struct device *device, unsigned *count,  \
                                                          nvmlProcessInfo_v2_t *processes)         \
    {                                                                                              \
        return list_v2(device, listed, count, processes);                                          \
    }                                                                                              \
    NVML_API int nvmlDeviceGet##kind##RunningProcesses(struct device *device, unsigned *count,     \
                                                       nvmlProcessInfo_v1_t *processes)            \
    {                                                                                              \
        return list_v1(device, listed, count, processes);                                          \
    }

LISTING(Compute, LISTED_COMPUTE)
LISTING(MPSCompute, LISTED_MPS)
LISTING(Graphics, LISTED_GRAPHICS)

struct nvml_gpm_sample {
    struct emu_usage usage;
};

/* As on real cards: Hopper (9.0) and later. */
static int is_gpm_device(const struct device *device)
{
    return device->state->model.cc_major >= 9;
}

NVML_API int nvmlGpmQueryDeviceSupport(struct device *device, nvmlGpmSupport_t *support)
{
    int r = nvml_check_answer(device, support);
    if (r == NVML_SUCCESS && support->version != NVML_GPM_VERSION)
        r = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (r == NVML_SUCCESS)
        support->isSupportedDevice = (unsigned)is_gpm_device(device);
    return r;
}

NVML_API int nvmlGpmSampleAlloc(struct nvml_gpm_sample **ret_sample)
{
    if (!ret_sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct nvml_gpm_sample *sample = calloc(1, sizeof(*sample));
    if (!sample)
        return NVML_ERROR_MEMORY;
    *ret_sample = sample;
    return NVML_SUCCESS;
}

NVML_API int nvmlGpmSampleFree(struct nvml_gpm_sample *sample)
{
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(sample);
    return NVML_SUCCESS;
}

NVML_API int nvmlGpmSampleGet(struct device *device, struct nvml_gpm_sample *sample)
{
    int r = nvml_check_answer(device, sample);
    if (r == NVML_SUCCESS && !is_gpm_device(device))
        r = NVML_ERROR_NOT_SUPPORTED;
    if (r != NVML_SUCCESS)
        return r;
    device_lock_now(device);
    sample->usage = device->state->usage;
    device_unlock(device);
    return NVML_SUCCESS;
}

static double mib_per_s(uint64_t bytes, double ns)
{
    return (double)bytes / (1 << 20) * 1e9 / ns;
}

/* Percent, except for the bus. Kernels have no occupancy or tensor use of their own here: an SM in
 * use counts as half occupied, and its tensor cores as idle. */
static int metric_value(unsigned id, const struct emu_usage *from, const struct emu_usage *to,
                        double *ret_value)
{
    double ns = (double)(to->time_ns - from->time_ns);
    double sm_percent = (double)(to->sm_permille_ns - from->sm_permille_ns) / ns / 10;
    switch (id) {
    case NVML_GPM_GRAPHICS_UTIL:
        *ret_value = (double)(to->busy_ns - from->busy_ns) / ns * 100;
        return NVML_SUCCESS;
    case NVML_GPM_SM_UTIL:
        *ret_value = sm_percent;
        return NVML_SUCCESS;
    case NVML_GPM_SM_OCCUPANCY:
        *ret_value = sm_percent / 2;
        return NVML_SUCCESS;
    case NVML_GPM_ANY_TENSOR_UTIL:
        *ret_value = 0;
        return NVML_SUCCESS;
    case NVML_GPM_DRAM_BW_UTIL:
        *ret_value = (double)(to->dram_permille_ns - from->dram_permille_ns) / ns / 10;
        return NVML_SUCCESS;
    case NVML_GPM_PCIE_TX_PER_SEC:
        *ret_value = mib_per_s(to->from_device_bytes - from->from_device_bytes, ns);
        return NVML_SUCCESS;
    case NVML_GPM_PCIE_RX_PER_SEC:
        *ret_value = mib_per_s(to->to_device_bytes - from->to_device_bytes, ns);
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

NVML_API int nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metrics)
{
    if (!metrics || !metrics->sample1 || !metrics->sample2 ||
        metrics->numMetrics > NVML_GPM_METRICS_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (metrics->version != NVML_GPM_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct emu_usage *from = &metrics->sample1->usage, *to = &metrics->sample2->usage;
    if (to->time_ns <= from->time_ns)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < metrics->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &metrics->metrics[i];
        metric->nvmlReturn = metric_value(metric->metricId, from, to, &metric->value);
    }
    return NVML_SUCCESS;
}
