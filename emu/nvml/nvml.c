/*
 * The emulated NVML: an observer's view of the devices. As in the real NVML, CUDA_VISIBLE_DEVICES
 * has no effect. Values come from the simulation. Utilisation is the part of the last 200 to 400 ms
 * of emulated time in which any work ran; power grows from idle to the limit with the SMs in use;
 * temperature follows power.
 */
#include "emu/nvml/nvml.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "emu/device/client.h"
#include "emu/device/uuid.h"

enum {
    CUDA_VERSION = 13000,
    TEMPERATURE_IDLE_C = 30,
    TEMPERATURE_RISE_C = 45,
    TEMPERATURE_SLOWDOWN_C = 90,
    SM_CLOCK_IDLE_MHZ = 345,
    CORES_PER_SM = 128,
    CORES_PER_SMALL_SM = 64, /* Volta, Turing and the A100 */
};
#define DRIVER_VERSION "580.00 (gpumux emulation)"

struct observer {
    pthread_mutex_t lock;
    _Atomic unsigned references; /* changed under the lock */
    struct mapping mapping;
    struct device devices[EMU_DEVICES_MAX];
    unsigned device_count;
};

/* Calls read the state without the lock: NVML forbids a last nvmlShutdown concurrent with other
 * calls. */
static struct observer observer = {.lock = PTHREAD_MUTEX_INITIALIZER};

int nvml_ready(void)
{
    return observer.references > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const struct mapping *nvml_mapping(void)
{
    return &observer.mapping;
}

static bool is_lost(const struct device *device)
{
    return __atomic_load_n(&device->state->health.is_lost, __ATOMIC_ACQUIRE) != 0;
}

int nvml_check_answer(const struct device *device, const void *answer)
{
    int r = nvml_check(device);
    return r == NVML_SUCCESS && !answer ? NVML_ERROR_INVALID_ARGUMENT : r;
}

int nvml_check(const struct device *device)
{
    if (observer.references == 0)
        return NVML_ERROR_UNINITIALIZED;
    bool known = device >= observer.devices && device < observer.devices + observer.device_count;
    if (!known)
        return NVML_ERROR_INVALID_ARGUMENT;
    return is_lost(device) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

NVML_API int nvmlInit_v2(void)
{
    struct error error = {0};
    int r = NVML_SUCCESS;
    pthread_mutex_lock(&observer.lock);
    if (observer.references == 0) {
        if (mapping_open_from_environment(&error, &observer.mapping) < 0) {
            r = NVML_ERROR_DRIVER_NOT_LOADED;
        } else {
            observer.device_count = observer.mapping.file->device_count;
            for (unsigned i = 0; i < observer.device_count; i++)
                device_init(&observer.devices[i], &observer.mapping, i);
        }
    }
    if (r == NVML_SUCCESS)
        observer.references++;
    pthread_mutex_unlock(&observer.lock);
    return r;
}

NVML_API int nvmlInit(void)
{
    return nvmlInit_v2();
}

NVML_API int nvmlInitWithFlags(unsigned flags)
{
    (void)flags; /* flags that ignore missing devices or attach; they have no effect here */
    return nvmlInit_v2();
}

NVML_API int nvmlShutdown(void)
{
    int r = NVML_SUCCESS;
    pthread_mutex_lock(&observer.lock);
    if (observer.references == 0)
        r = NVML_ERROR_UNINITIALIZED;
    else if (--observer.references == 0)
        mapping_close(&observer.mapping);
    pthread_mutex_unlock(&observer.lock);
    return r;
}

NVML_API const char *nvmlErrorString(int result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "success";
    case NVML_ERROR_UNINITIALIZED:
        return "nvmlInit was not called";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "invalid argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "not supported here";
    case NVML_ERROR_NOT_FOUND:
        return "not found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "the buffer is too small";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "no emulated devices: set GPUMUX_EMU or GPUMUX_EMU_DEVICES";
    case NVML_ERROR_TIMEOUT:
        return "nothing happened in that time";
    case NVML_ERROR_GPU_IS_LOST:
        return "the GPU has fallen off the bus";
    case NVML_ERROR_MEMORY:
        return "out of memory";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "the version of the structure is not known";
    default:
        return "unknown error";
    }
}

static int copy_text(char *to, unsigned size, const char *from)
{
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (size <= strlen(from))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    str_copy(to, size, from);
    return NVML_SUCCESS;
}

NVML_API int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    return nvml_ready() ? NVML_ERROR_UNINITIALIZED : copy_text(text, size, DRIVER_VERSION);
}

NVML_API int nvmlSystemGetNVMLVersion(char *text, unsigned size)
{
    return nvml_ready() ? NVML_ERROR_UNINITIALIZED : copy_text(text, size, "13." DRIVER_VERSION);
}

NVML_API int nvmlSystemGetCudaDriverVersion_v2(int *ret_version)
{
    if (!ret_version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret_version = CUDA_VERSION;
    return NVML_SUCCESS;
}

NVML_API int nvmlSystemGetCudaDriverVersion(int *ret_version)
{
    return nvmlSystemGetCudaDriverVersion_v2(ret_version);
}

NVML_API int nvmlDeviceGetCount_v2(unsigned *ret_count)
{
    int r = nvml_ready();
    if (r == NVML_SUCCESS && !ret_count)
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *ret_count = observer.device_count;
    return r;
}

NVML_API int nvmlDeviceGetCount(unsigned *ret_count)
{
    return nvmlDeviceGetCount_v2(ret_count);
}

NVML_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **ret_device)
{
    int r = nvml_ready();
    if (r == NVML_SUCCESS && (!ret_device || index >= observer.device_count))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS && is_lost(&observer.devices[index]))
        r = NVML_ERROR_GPU_IS_LOST;
    if (r == NVML_SUCCESS)
        *ret_device = &observer.devices[index];
    return r;
}

NVML_API int nvmlDeviceGetHandleByIndex(unsigned index, struct device **ret_device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, ret_device);
}

NVML_API int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **ret_device)
{
    int r = nvml_ready();
    if (r == NVML_SUCCESS && (!uuid || !ret_device))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    for (unsigned i = 0; i < observer.device_count; i++) {
        char text[UUID_TEXT_MAX];
        if (strcasecmp(uuid, uuid_format(observer.devices[i].state->uuid, text)) == 0) {
            *ret_device = &observer.devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API int nvmlDeviceGetHandleByPciBusId_v2(const char *text, struct device **ret_device)
{
    unsigned domain, bus;
    int r = nvml_ready();
    if (r == NVML_SUCCESS &&
        (!text || !ret_device || sscanf(text, "%8x:%2x:00", &domain, &bus) != 2))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    if (bus == 0 || bus > observer.device_count)
        return NVML_ERROR_NOT_FOUND;
    *ret_device = &observer.devices[bus - 1];
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetIndex(struct device *device, unsigned *ret_index)
{
    int r = nvml_check_answer(device, ret_index);
    if (r == NVML_SUCCESS)
        *ret_index = device->index;
    return r;
}

NVML_API int nvmlDeviceGetMinorNumber(struct device *device, unsigned *ret_minor)
{
    return nvmlDeviceGetIndex(device, ret_minor);
}

NVML_API int nvmlDeviceGetName(struct device *device, char *text, unsigned size)
{
    int r = nvml_check(device);
    return r == NVML_SUCCESS ? copy_text(text, size, device->state->model.name) : r;
}

NVML_API int nvmlDeviceGetUUID(struct device *device, char *text, unsigned size)
{
    char uuid[UUID_TEXT_MAX];
    int r = nvml_check(device);
    return r == NVML_SUCCESS ? copy_text(text, size, uuid_format(device->state->uuid, uuid)) : r;
}

NVML_API int nvmlDeviceGetPciInfo_v3(struct device *device, nvmlPciInfo_t *ret_pci)
{
    int r = nvml_check_answer(device, ret_pci);
    if (r != NVML_SUCCESS)
        return r;
    *ret_pci = (nvmlPciInfo_t){.bus = device->index + 1};
    snprintf(ret_pci->busIdLegacy, sizeof(ret_pci->busIdLegacy), "0000:%02X:00.0",
             ret_pci->bus & 0xff);
    snprintf(ret_pci->busId, sizeof(ret_pci->busId), "00000000:%02X:00.0", ret_pci->bus & 0xff);
    return NVML_SUCCESS;
}

static void read_memory(struct device *device, nvmlMemory_t *ret_memory)
{
    device_lock_now(device);
    client_reap(device);
    ret_memory->total = device->state->model.memory_bytes;
    ret_memory->used = device->state->memory_used_bytes;
    ret_memory->free = ret_memory->total - ret_memory->used;
    device_unlock(device);
}

NVML_API int nvmlDeviceGetMemoryInfo(struct device *device, nvmlMemory_t *ret_memory)
{
    int r = nvml_check_answer(device, ret_memory);
    if (r == NVML_SUCCESS)
        read_memory(device, ret_memory);
    return r;
}

NVML_API int nvmlDeviceGetMemoryInfo_v2(struct device *device, nvmlMemory_v2_t *memory)
{
    int r = nvml_check_answer(device, memory);
    if (r == NVML_SUCCESS && memory->version != NVML_VERSION_OF(nvmlMemory_v2_t, 2))
        r = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (r != NVML_SUCCESS)
        return r;
    nvmlMemory_t plain;
    read_memory(device, &plain);
    memory->total = plain.total;
    memory->reserved = 0;
    memory->free = plain.free;
    memory->used = plain.used;
    return NVML_SUCCESS;
}

struct nvml_recent nvml_recent(struct device *device)
{
    const struct emu_device *state = device->state;
    struct nvml_recent recent = {0};
    device_lock_now(device);
    const struct emu_usage *from = &state->marks[0], *to = &state->usage;
    uint64_t ns = to->time_ns - from->time_ns;
    if (ns > 0) {
        recent.busy = (unsigned)((to->busy_ns - from->busy_ns) * 1000 / ns);
        recent.sm = (unsigned)((to->sm_permille_ns - from->sm_permille_ns) / ns);
        recent.dram = (unsigned)((to->dram_permille_ns - from->dram_permille_ns) / ns);
    }
    device_unlock(device);
    return recent;
}

NVML_API int nvmlDeviceGetUtilizationRates(struct device *device, nvmlUtilization_t *ret)
{
    int r = nvml_check_answer(device, ret);
    if (r != NVML_SUCCESS)
        return r;
    struct nvml_recent recent = nvml_recent(device);
    *ret = (nvmlUtilization_t){.gpu = (recent.busy + 5) / 10, .memory = (recent.dram + 5) / 10};
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetPowerUsage(struct device *device, unsigned *ret_mw)
{
    int r = nvml_check_answer(device, ret_mw);
    if (r != NVML_SUCCESS)
        return r;
    const struct emu_model *model = &device->state->model;
    unsigned above_idle_w = model->power_limit_w - model->power_idle_w;
    *ret_mw = model->power_idle_w * 1000 + above_idle_w * nvml_recent(device).sm;
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetEnforcedPowerLimit(struct device *device, unsigned *ret_mw)
{
    int r = nvml_check_answer(device, ret_mw);
    if (r == NVML_SUCCESS)
        *ret_mw = device->state->model.power_limit_w * 1000;
    return r;
}

NVML_API int nvmlDeviceGetPowerManagementLimit(struct device *device, unsigned *ret_mw)
{
    return nvmlDeviceGetEnforcedPowerLimit(device, ret_mw);
}

/* A device that is slowed for thermal reasons is hot. */
static unsigned temperature_c(struct device *device)
{
    uint64_t heat = NVML_REASON_HW_THERMAL | NVML_REASON_SW_THERMAL;
    if ((device->state->health.clock_reasons & heat) != 0)
        return TEMPERATURE_SLOWDOWN_C;
    return TEMPERATURE_IDLE_C + TEMPERATURE_RISE_C * nvml_recent(device).sm / 1000;
}

NVML_API int nvmlDeviceGetTemperature(struct device *device, int sensor, unsigned *ret_celsius)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!ret_celsius || sensor != 0))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *ret_celsius = temperature_c(device);
    return r;
}

NVML_API int nvmlDeviceGetMaxClockInfo(struct device *device, int clock, unsigned *ret_mhz)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!ret_mhz || clock < 0 || clock > NVML_CLOCK_VIDEO))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        *ret_mhz = clock == NVML_CLOCK_MEMORY ? device->state->model.memory_clock_mhz
                                              : device->state->model.sm_clock_mhz;
    return r;
}

NVML_API int nvmlDeviceGetClockInfo(struct device *device, int clock, unsigned *ret_mhz)
{
    int r = nvmlDeviceGetMaxClockInfo(device, clock, ret_mhz);
    if (r == NVML_ERROR_INVALID_ARGUMENT && nvml_check(device) == NVML_SUCCESS && ret_mhz)
        return NVML_ERROR_NOT_SUPPORTED; /* an unknown clock */
    if (r != NVML_SUCCESS || clock == NVML_CLOCK_MEMORY)
        return r;
    *ret_mhz -= *ret_mhz * device->state->health.clock_lowered_permille / 1000;
    if (nvml_recent(device).busy == 0 && *ret_mhz > SM_CLOCK_IDLE_MHZ)
        *ret_mhz = SM_CLOCK_IDLE_MHZ;
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetComputeMode(struct device *device, int *ret_mode)
{
    int r = nvml_check_answer(device, ret_mode);
    if (r == NVML_SUCCESS)
        *ret_mode = 0; /* default: any number of processes */
    return r;
}

NVML_API int nvmlDeviceGetNumGpuCores(struct device *device, unsigned *ret_cores)
{
    int r = nvml_check_answer(device, ret_cores);
    if (r != NVML_SUCCESS)
        return r;
    uint32_t major = device->state->model.cc_major, minor = device->state->model.cc_minor;
    bool small = major == 7 || (major == 8 && minor == 0);
    *ret_cores = device->state->model.sms * (small ? CORES_PER_SMALL_SM : CORES_PER_SM);
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS && (!major || !minor))
        r = NVML_ERROR_INVALID_ARGUMENT;
    if (r != NVML_SUCCESS)
        return r;
    *major = (int)device->state->model.cc_major;
    *minor = (int)device->state->model.cc_minor;
    return NVML_SUCCESS;
}

#define LACK(symbol)                                                                               \
    NVML_API int symbol(void);                                                                     \
    NVML_API int symbol(void)                                                                      \
    {                                                                                              \
        return NVML_ERROR_NOT_SUPPORTED;                                                           \
    }
#define CALL(...)
#define TEXT(...)
#include "../../api/nvml_calls.def"
