/* NVML: who uses a device, and how much of it (GPM). */
#include <stdlib.h>

#include "emu/client.h"
#include "emu/nvml.h"

/* Copies the living clients; returns how many there are, also when that is more than `size`. */
static unsigned list_clients(struct device *device, struct nvml_process_v2 *processes,
                             unsigned size)
{
    const struct emu_device *state = device->state;
    unsigned count = 0;
    device_lock_now(device);
    client_reap(device);
    for (unsigned slot = 0; slot < state->clients_high; slot++) {
        const struct emu_client *client = &state->clients[slot];
        if (!client->live)
            continue;
        if (count < size)
            processes[count] = (struct nvml_process_v2){
                .pid = (unsigned)client->pid,
                .used_bytes = client->memory_bytes,
                .gpu_instance = NVML_NO_INSTANCE,
                .compute_instance = NVML_NO_INSTANCE,
            };
        count++;
    }
    device_unlock(device);
    return count;
}

NVML_API int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count,
                                                     struct nvml_process_v2 *processes);
NVML_API int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count,
                                                     struct nvml_process_v2 *processes)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!count || (*count > 0 && !processes)))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    unsigned size = *count;
    *count = list_clients(device, processes, size);
    return *count > size ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetComputeRunningProcesses_v2(struct device *device, unsigned *count,
                                                     struct nvml_process_v2 *processes);
NVML_API int nvmlDeviceGetComputeRunningProcesses_v2(struct device *device, unsigned *count,
                                                     struct nvml_process_v2 *processes)
{
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

NVML_API int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *count,
                                                  struct nvml_process_v1 *processes);
NVML_API int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *count,
                                                  struct nvml_process_v1 *processes)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!count || (*count > 0 && !processes)))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    struct nvml_process_v2 all[EMU_CLIENTS_MAX];
    unsigned size = *count;
    *count = list_clients(device, all, EMU_CLIENTS_MAX);
    for (unsigned i = 0; i < *count && i < size; i++)
        processes[i] = (struct nvml_process_v1){.pid = all[i].pid, .used_bytes = all[i].used_bytes};
    return *count > size ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

struct nvml_gpm_sample {
    struct emu_usage usage;
};

/* As on real cards: from Hopper (9.0) on. */
static int is_gpm_device(const struct device *device)
{
    return device->state->model.cc_major >= 9;
}

NVML_API int nvmlGpmQueryDeviceSupport(struct device *device, struct nvml_gpm_support *support);
NVML_API int nvmlGpmQueryDeviceSupport(struct device *device, struct nvml_gpm_support *support)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && !support)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS && support->version != NVML_GPM_VERSION)
        r = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (r == NVML_SUCCESS)
        support->is_supported = (unsigned)is_gpm_device(device);
    return r;
}

NVML_API int nvmlGpmSampleAlloc(struct nvml_gpm_sample **ret_sample);
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

NVML_API int nvmlGpmSampleFree(struct nvml_gpm_sample *sample);
NVML_API int nvmlGpmSampleFree(struct nvml_gpm_sample *sample)
{
    if (!sample)
        return NVML_ERROR_INVALID_ARGUMENT;
    free(sample);
    return NVML_SUCCESS;
}

NVML_API int nvmlGpmSampleGet(struct device *device, struct nvml_gpm_sample *sample);
NVML_API int nvmlGpmSampleGet(struct device *device, struct nvml_gpm_sample *sample)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && !sample)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS && !is_gpm_device(device))
        r = NVML_ERROR_NOT_SUPPORTED;
    if (r != NVML_SUCCESS)
        return r;
    device_lock_now(device);
    sample->usage = device->state->usage;
    device_unlock(device);
    return NVML_SUCCESS;
}

/* Percent. Kernels have no occupancy or tensor use of their own here: an SM in use counts as half
 * occupied and its tensor cores as idle. */
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
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

NVML_API int nvmlGpmMetricsGet(struct nvml_gpm_metrics *metrics);
NVML_API int nvmlGpmMetricsGet(struct nvml_gpm_metrics *metrics)
{
    if (!metrics || !metrics->first || !metrics->second || metrics->count > NVML_GPM_METRICS_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (metrics->version != NVML_GPM_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct emu_usage *from = &metrics->first->usage, *to = &metrics->second->usage;
    if (to->time_ns <= from->time_ns)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < metrics->count; i++) {
        struct nvml_gpm_metric *metric = &metrics->metrics[i];
        metric->result = metric_value(metric->id, from, to, &metric->value);
    }
    return NVML_SUCCESS;
}
