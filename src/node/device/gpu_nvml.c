/*
 * Devices through NVML, opened at run time, so that gpumux builds and starts without NVML.
 *
 * SM and DRAM activity come from GPM counters (Hopper and later), as the difference of two samples;
 * on older devices from the utilisation rates, which are less precise.
 */
#include "node/device/gpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "abi/nvml.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/str.h"

enum {
    GPM_LEAST_APART_MS = 110,
    PROCESSES_OF_DEVICE_MAX = 512,
};

/* CALL(required, member, symbol) */
#define NVML_CALLS(CALL)                                                                           \
    CALL(true, init, nvmlInit_v2)                                                                  \
    CALL(true, shutdown, nvmlShutdown)                                                             \
    CALL(true, count, nvmlDeviceGetCount_v2)                                                       \
    CALL(true, handle, nvmlDeviceGetHandleByIndex_v2)                                              \
    CALL(true, uuid, nvmlDeviceGetUUID)                                                            \
    CALL(true, name, nvmlDeviceGetName)                                                            \
    CALL(true, memory, nvmlDeviceGetMemoryInfo)                                                    \
    CALL(false, cores, nvmlDeviceGetNumGpuCores)                                                   \
    CALL(false, capability, nvmlDeviceGetCudaComputeCapability)                                    \
    CALL(false, rates, nvmlDeviceGetUtilizationRates)                                              \
    CALL(false, power, nvmlDeviceGetPowerUsage)                                                    \
    CALL(false, power_limit, nvmlDeviceGetEnforcedPowerLimit)                                      \
    CALL(false, temperature, nvmlDeviceGetTemperature)                                             \
    CALL(false, processes, nvmlDeviceGetComputeRunningProcesses_v3)                                \
    CALL(false, slowdown, nvmlDeviceGetCurrentClocksThrottleReasons)                               \
    CALL(false, event_set_create, nvmlEventSetCreate)                                              \
    CALL(false, event_set_free, nvmlEventSetFree)                                                  \
    CALL(false, event_register, nvmlDeviceRegisterEvents)                                          \
    CALL(false, event_wait, nvmlEventSetWait_v2)                                                   \
    CALL(false, gpm_support, nvmlGpmQueryDeviceSupport)                                            \
    CALL(false, gpm_alloc, nvmlGpmSampleAlloc)                                                     \
    CALL(false, gpm_free, nvmlGpmSampleFree)                                                       \
    CALL(false, gpm_get, nvmlGpmSampleGet)                                                         \
    CALL(false, gpm_metrics, nvmlGpmMetricsGet)

struct nvml {
#define CALL(required, member, symbol) call_##symbol *member;
    NVML_CALLS(CALL)
#undef CALL
};

struct gpu_device {
    nvmlDevice_t handle;
    char uuid[DEVICE_UUID_MAX];
    bool lost; /* lost at the last look */
    bool gpm;
    nvmlGpmSample_t gpm_samples[2]; /* oldest first */
    int64_t gpm_taken_ms;           /* time of the newer sample; 0: none yet */
    double sm_percent, dram_percent;
};

struct gpu {
    void *library;
    struct nvml nvml;
    bool initialised, emulated;
    nvmlEventSet_t xids; /* set of events; NULL: not requested yet, or unsupported */
    bool xids_tried;
    int device_count;
    struct gpu_device devices[NODE_DEVICES_MAX];
    nvmlGpmMetricsGet_t metrics; /* too large for a thread's stack */
    nvmlProcessInfo_v2_t processes[PROCESSES_OF_DEVICE_MAX];
};

static int load(struct error *e, struct gpu *g, const char *path)
{
#define CALL(required, member, symbol) #symbol,
    static const char *const names[] = {NVML_CALLS(CALL) NULL};
#undef CALL
    g->library = library_load(path, names, &g->nvml).handle;
    if (!g->library)
        return error_set(e, ERR_NO_DEVICE, "no NVIDIA driver: %s", dlerror());
    bool missing = false;
#define CALL(required, member, symbol) missing = missing || ((required) && !g->nvml.member);
    NVML_CALLS(CALL)
#undef CALL
    return missing ? error_set(e, ERR_NO_DEVICE, NVML_SONAME " is too old") : 0;
}

static void open_gpm(struct gpu *g, struct gpu_device *d)
{
    nvmlGpmSupport_t support = {.version = NVML_GPM_VERSION};
    if (!g->nvml.gpm_support || !g->nvml.gpm_alloc || !g->nvml.gpm_free || !g->nvml.gpm_get ||
        !g->nvml.gpm_metrics || g->nvml.gpm_support(d->handle, &support) != NVML_SUCCESS ||
        !support.isSupportedDevice)
        return;
    d->gpm = g->nvml.gpm_alloc(&d->gpm_samples[0]) == NVML_SUCCESS &&
             g->nvml.gpm_alloc(&d->gpm_samples[1]) == NVML_SUCCESS;
}

static int open_devices(struct error *e, struct gpu *g)
{
    unsigned int count = 0;
    int r = g->nvml.init();
    if (r != NVML_SUCCESS)
        return error_set(e, ERR_NO_DEVICE,
                         "NVML cannot be started (its error %d): is the driver "
                         "loaded?",
                         r);
    g->initialised = true;
    r = g->nvml.count(&count);
    for (unsigned int i = 0; r == NVML_SUCCESS && i < count && g->device_count < NODE_DEVICES_MAX;
         i++) {
        struct gpu_device *d = &g->devices[g->device_count];
        *d = (struct gpu_device){.sm_percent = -1, .dram_percent = -1};
        if (g->nvml.handle(i, &d->handle) != NVML_SUCCESS ||
            g->nvml.uuid(d->handle, d->uuid, sizeof d->uuid) != NVML_SUCCESS)
            continue; /* lost, or not accessible */
        open_gpm(g, d);
        g->device_count++;
    }
    if (g->device_count == 0)
        return error_set(e, ERR_NO_DEVICE, "the driver is there, but no device");
    return 0;
}

int gpu_open(struct error *e, const char *emulate, const char *libraries, struct gpu **ret)
{
    char path[PATH_MAX] = NVML_SONAME;
    if (emulate && snprintf(path, sizeof path, "%s/" NVML_SONAME, libraries) >= (int)sizeof path)
        return error_set(e, ERR_INVALID, "the path of the emulated libraries is too long");
    /* The emulated library finds its devices by this variable, as in a workload. */
    if (emulate && !str_equal(getenv("GPUMUX_EMU"), emulate) &&
        setenv("GPUMUX_EMU", emulate, 1) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    struct gpu *g = calloc(1, sizeof *g);
    if (!g)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    g->emulated = emulate != NULL;
    int r = load(e, g, path);
    if (r == 0)
        r = open_devices(e, g);
    if (r < 0) {
        gpu_close(g);
        return r;
    }
    *ret = g;
    return 0;
}

static void close_xids(struct gpu *g)
{
    if (g->xids)
        g->nvml.event_set_free(g->xids);
    g->xids = NULL;
    g->xids_tried = false;
}

void gpu_close(struct gpu *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->device_count; i++)
        for (int k = 0; k < 2; k++)
            if (g->devices[i].gpm_samples[k])
                g->nvml.gpm_free(g->devices[i].gpm_samples[k]);
    close_xids(g);
    if (g->initialised)
        g->nvml.shutdown();
    if (g->library)
        dlclose(g->library);
    free(g);
}

/* Returns the number of SMs. NVML counts CUDA cores, whose number in an SM depends on the
 * generation. */
static int count_sms(const struct gpu *g, const struct gpu_device *d)
{
    unsigned int cores = 0;
    int major = 0, minor = 0;
    if (!g->nvml.cores || !g->nvml.capability || g->nvml.cores(d->handle, &cores) != NVML_SUCCESS ||
        g->nvml.capability(d->handle, &major, &minor) != NVML_SUCCESS)
        return 0;
    bool small = major == 7 || (major == 8 && minor == 0) || (major == 6 && minor == 0);
    return (int)(cores / (small ? 64 : 128));
}

int gpu_inventory(struct gpu *g, struct device *devices)
{
    for (int i = 0; i < g->device_count; i++) {
        const struct gpu_device *d = &g->devices[i];
        nvmlMemory_t memory = {0};
        devices[i] = (struct device){.index = i, .emulated = g->emulated};
        str_copy(devices[i].uuid, sizeof devices[i].uuid, d->uuid);
        if (g->nvml.name(d->handle, devices[i].model, sizeof devices[i].model) != NVML_SUCCESS)
            str_copy(devices[i].model, sizeof devices[i].model, "unknown");
        if (g->nvml.memory(d->handle, &memory) == NVML_SUCCESS)
            devices[i].memory_bytes = memory.total;
        devices[i].sm_count = count_sms(g, d);
    }
    return g->device_count;
}

/* Returns the value of a metric in 0…100, or -1 if NVML did not report it. */
static double metric_percent(const nvmlGpmMetric_t *metric)
{
    if (metric->nvmlReturn != NVML_SUCCESS || !(metric->value >= 0))
        return -1;
    return metric->value > 100 ? 100 : metric->value;
}

/* Serialises the watch and the sampler, because GPM has one state for a process and its device. */
static pthread_mutex_t gpm_lock = PTHREAD_MUTEX_INITIALIZER;

/* Samples activity since the last sample; too soon after it, the earlier result stays. */
static void sample_gpm_locked(struct gpu *g, struct gpu_device *d)
{
    int64_t now_ms = clock_boot_ms();
    if (d->gpm_taken_ms && now_ms - d->gpm_taken_ms < GPM_LEAST_APART_MS)
        return;
    nvmlGpmSample_t older = d->gpm_samples[1];
    d->gpm_samples[1] = d->gpm_samples[0];
    d->gpm_samples[0] = older;
    if (g->nvml.gpm_get(d->handle, d->gpm_samples[1]) != NVML_SUCCESS) {
        d->gpm_taken_ms = 0;
        return;
    }
    bool first = d->gpm_taken_ms == 0;
    d->gpm_taken_ms = now_ms;
    if (first)
        return;
    g->metrics = (nvmlGpmMetricsGet_t){.version = NVML_GPM_VERSION,
                                       .numMetrics = 2,
                                       .sample1 = d->gpm_samples[0],
                                       .sample2 = d->gpm_samples[1]};
    g->metrics.metrics[0].metricId = NVML_GPM_SM_UTIL;
    g->metrics.metrics[1].metricId = NVML_GPM_DRAM_BW_UTIL;
    if (g->nvml.gpm_metrics(&g->metrics) != NVML_SUCCESS)
        return;
    d->sm_percent = metric_percent(&g->metrics.metrics[0]);
    d->dram_percent = metric_percent(&g->metrics.metrics[1]);
}

static void sample_activity(struct gpu *g, struct gpu_device *d)
{
    if (d->gpm) {
        pthread_mutex_lock(&gpm_lock);
        sample_gpm_locked(g, d);
        pthread_mutex_unlock(&gpm_lock);
    }
    nvmlUtilization_t rates;
    bool wanted = d->sm_percent < 0 || !d->gpm;
    if (wanted && g->nvml.rates && g->nvml.rates(d->handle, &rates) == NVML_SUCCESS) {
        d->sm_percent = rates.gpu;
        d->dram_percent = rates.memory;
    }
}

static double milliwatts(call_nvmlDeviceGetPowerUsage *call, nvmlDevice_t handle)
{
    unsigned int value;
    return call && call(handle, &value) == NVML_SUCCESS ? value / 1000.0 : -1;
}

static void sample_device(struct gpu *g, struct gpu_device *d, struct device_usage *usage)
{
    nvmlMemory_t memory = {0};
    unsigned int celsius;
    sample_activity(g, d);
    *usage = (struct device_usage){.sm_percent = d->sm_percent,
                                   .memory_percent = d->dram_percent,
                                   .power_watts = milliwatts(g->nvml.power, d->handle),
                                   .power_limit_watts = milliwatts(g->nvml.power_limit, d->handle),
                                   .temperature_celsius = -1};
    str_copy(usage->uuid, sizeof usage->uuid, d->uuid);
    if (g->nvml.memory(d->handle, &memory) == NVML_SUCCESS)
        usage->memory_used_bytes = memory.used;
    if (g->nvml.temperature &&
        g->nvml.temperature(d->handle, NVML_TEMPERATURE_GPU, &celsius) == NVML_SUCCESS)
        usage->temperature_celsius = celsius;
}

static void sample_processes(struct gpu *g, int device, struct gpu_sample *sample)
{
    const struct gpu_device *d = &g->devices[device];
    unsigned int count = PROCESSES_OF_DEVICE_MAX;
    bool is_listed =
        g->nvml.processes && g->nvml.processes(d->handle, &count, g->processes) == NVML_SUCCESS;
    sample->is_unlisted[device] =
        !is_listed || count > GPU_PROCESSES_MAX - (unsigned int)sample->process_count;
    for (unsigned int i = 0; is_listed && i < count && sample->process_count < GPU_PROCESSES_MAX;
         i++) {
        const nvmlProcessInfo_v2_t *p = &g->processes[i];
        bool known = p->usedGpuMemory != ULLONG_MAX; /* else unknown to the driver */
        sample->is_unlisted[device] |= !known;
        sample->processes[sample->process_count++] =
            (struct gpu_process){.pid = (pid_t)p->pid,
                                 .device = device,
                                 .memory_used_bytes = known ? p->usedGpuMemory : 0};
    }
}

void gpu_sample_processes(struct gpu *g, struct gpu_sample *ret)
{
    ret->taken_ms = clock_boot_ms();
    ret->process_count = 0;
    for (int i = 0; i < g->device_count; i++)
        sample_processes(g, i, ret);
}

void gpu_sample(struct gpu *g, struct gpu_sample *ret)
{
    ret->device_count = (size_t)g->device_count;
    for (int i = 0; i < g->device_count; i++)
        sample_device(g, &g->devices[i], &ret->devices[i]);
    gpu_sample_processes(g, ret);
}

void gpu_read(struct gpu *g, int device, struct gpu_reading *ret)
{
    struct gpu_device *d = &g->devices[device];
    nvmlMemory_t memory = {0};
    unsigned long long reasons = 0;
    int r = g->nvml.memory(d->handle, &memory);
    if (r == NVML_SUCCESS && d->lost)
        close_xids(g); /* the device was reset: the next set of events includes it again */
    d->lost = r == NVML_ERROR_GPU_IS_LOST;
    if (!g->nvml.slowdown || g->nvml.slowdown(d->handle, &reasons) != NVML_SUCCESS)
        reasons = 0;
    sample_activity(g, d);
    *ret = (struct gpu_reading){.valid = r == NVML_SUCCESS,
                                .lost = d->lost,
                                .memory_used_bytes = memory.used,
                                .memory_bytes = memory.total,
                                .slowdown = reasons,
                                .sm_percent = d->sm_percent};
}

static void sleep_ms(int64_t ms)
{
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

/* Opens the set of events. A device without Xids, or a lost one, is left out; with an empty set
 * waiting only times out. */
static void open_xids(struct gpu *g)
{
    g->xids_tried = true;
    if (!g->nvml.event_set_create || !g->nvml.event_set_free || !g->nvml.event_register ||
        !g->nvml.event_wait || g->nvml.event_set_create(&g->xids) != NVML_SUCCESS) {
        g->xids = NULL;
        return;
    }
    for (int i = 0; i < g->device_count; i++)
        (void)g->nvml.event_register(g->devices[i].handle, NVML_EVENT_XID, g->xids);
}

bool gpu_wait_xid(struct gpu *g, int timeout_ms, int *ret_device, int *ret_xid)
{
    nvmlEventData_t event = {0};
    if (!g->xids_tried)
        open_xids(g);
    if (!g->xids) {
        sleep_ms(timeout_ms);
        return false;
    }
    int64_t before_ms = clock_boot_ms();
    int r = g->nvml.event_wait(g->xids, &event, (unsigned int)timeout_ms);
    if (r != NVML_SUCCESS || event.eventType != NVML_EVENT_XID) {
        if (r == NVML_ERROR_GPU_IS_LOST)
            close_xids(g); /* a lost device in the set blocks events of the others */
        /* Prevents a busy loop on an error that returns at once. */
        int64_t left_ms = timeout_ms - (clock_boot_ms() - before_ms);
        if (r != NVML_ERROR_TIMEOUT && left_ms > 0)
            sleep_ms(left_ms);
        return false;
    }
    for (int i = 0; i < g->device_count; i++)
        if (g->devices[i].handle == event.device) {
            *ret_device = i;
            *ret_xid = (int)event.eventData;
            return true;
        }
    return false;
}
