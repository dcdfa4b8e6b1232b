/* NVML: sets of events, which report Xids. A set reports events after the registration of a device;
 * if more than EMU_XIDS_MAX events are not read, the oldest are lost. A set with a device that has
 * fallen off the bus reports no events of the devices after it. */
#include <stdlib.h>
#include <time.h>

#include "emu/nvml/nvml.h"

enum { EVENT_SET_MAGIC = 0x6576736d, XID_OF_DOUBLE_BIT = 48 };

struct nvml_registration {
    struct device *device;
    uint64_t types; /* 0: not registered */
    uint64_t seen;  /* events read, as emu_health.xid_count counts them */
};

struct nvml_event_set {
    uint32_t magic;
    unsigned count;
    struct nvml_registration registered[EMU_DEVICES_MAX];
};

static int check_set(const struct nvml_event_set *set)
{
    int r = nvml_ready();
    if (r == NVML_SUCCESS && (!set || set->magic != EVENT_SET_MAGIC))
        r = NVML_ERROR_INVALID_ARGUMENT;
    return r;
}

NVML_API int nvmlEventSetCreate(struct nvml_event_set **ret_set)
{
    int r = nvml_ready();
    if (r != NVML_SUCCESS)
        return r;
    if (!ret_set)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct nvml_event_set *set = calloc(1, sizeof(*set));
    if (!set)
        return NVML_ERROR_MEMORY;
    set->magic = EVENT_SET_MAGIC;
    *ret_set = set;
    return NVML_SUCCESS;
}

NVML_API int nvmlEventSetFree(struct nvml_event_set *set)
{
    int r = check_set(set);
    if (r != NVML_SUCCESS)
        return r;
    set->magic = 0;
    free(set);
    return NVML_SUCCESS;
}

NVML_API int nvmlDeviceGetSupportedEventTypes(struct device *device, unsigned long long *ret_types)
{
    int r = nvml_check_answer(device, ret_types);
    if (r == NVML_SUCCESS)
        *ret_types = NVML_EVENTS_ALL;
    return r;
}

NVML_API int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types,
                                      struct nvml_event_set *set)
{
    int r = nvml_check(device);
    if (r == NVML_SUCCESS)
        r = check_set(set);
    if (r == NVML_SUCCESS && (types & ~(unsigned long long)NVML_EVENTS_ALL) != 0)
        r = NVML_ERROR_NOT_SUPPORTED;
    if (r != NVML_SUCCESS)
        return r;
    unsigned i = 0;
    while (i < set->count && set->registered[i].device != device)
        i++;
    struct nvml_registration *registered = &set->registered[i];
    if (i == set->count) {
        set->count++;
        device_lock_now(device);
        *registered = (struct nvml_registration){
            .device = device,
            .seen = device->state->health.xid_count,
        };
        device_unlock(device);
    }
    registered->types |= types;
    return NVML_SUCCESS;
}

/* Takes the next event of a device that its registration asks for. */
static bool take_event(struct nvml_registration *registered, nvmlEventData_t *event)
{
    struct device *device = registered->device;
    const struct emu_health *health = &device->state->health;
    bool taken = false;
    device_lock_now(device);
    if (health->xid_count > registered->seen + EMU_XIDS_MAX)
        registered->seen = health->xid_count - EMU_XIDS_MAX;
    while (!taken && registered->seen < health->xid_count) {
        uint32_t xid = health->xids[registered->seen++ % EMU_XIDS_MAX].number;
        bool as_xid = (registered->types & NVML_EVENT_XID) != 0;
        taken = as_xid ||
                (xid == XID_OF_DOUBLE_BIT && (registered->types & NVML_EVENT_DOUBLE_BIT_ECC) != 0);
        if (taken)
            *event = (nvmlEventData_t){
                .device = device,
                .eventType = as_xid ? NVML_EVENT_XID : NVML_EVENT_DOUBLE_BIT_ECC,
                .eventData = as_xid ? xid : 0,
                .gpuInstanceId = NVML_NO_INSTANCE,
                .computeInstanceId = NVML_NO_INSTANCE,
            };
    }
    device_unlock(device);
    return taken;
}

NVML_API int nvmlEventSetWait_v2(struct nvml_event_set *set, nvmlEventData_t *event,
                                 unsigned timeout_ms)
{
    int r = check_set(set);
    if (r != NVML_SUCCESS)
        return r;
    if (!event)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct mapping *mapping = nvml_mapping();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t until_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
                        (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        uint32_t alarms = mapping_alarms(mapping);
        for (unsigned i = 0; i < set->count; i++) {
            if (take_event(&set->registered[i], event))
                return NVML_SUCCESS;
            if (nvml_check(set->registered[i].device) == NVML_ERROR_GPU_IS_LOST)
                return NVML_ERROR_GPU_IS_LOST;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= until_ns)
            return NVML_ERROR_TIMEOUT;
        mapping_sleep(mapping, alarms, until_ns);
    }
}

/* The first version has no instances. */
NVML_API int nvmlEventSetWait(struct nvml_event_set *set, nvmlEventData_v1_t *event,
                              unsigned timeout_ms)
{
    nvmlEventData_t whole;
    int r = nvmlEventSetWait_v2(set, event ? &whole : NULL, timeout_ms);
    if (r == NVML_SUCCESS)
        *event = (nvmlEventData_v1_t){
            .device = whole.device,
            .eventType = whole.eventType,
            .eventData = whole.eventData,
        };
    return r;
}
