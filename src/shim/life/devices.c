#include <string.h>

#include "shim/life/devices.h"
#include "shim/life/process.h"

enum { PLACE_UNKNOWN = 255 };

static bool read_uuid(struct process *p, CUdevice device, CUuuid *ret_uuid)
{
    return (p->calls.has[CALL_cuDeviceGetUuid_v2]
                ? p->calls.real.cuDeviceGetUuid_v2(ret_uuid, device)
                : p->calls.real.cuDeviceGetUuid(ret_uuid, device)) == CUDA_SUCCESS;
}

/* Finds a device by its UUID in the limits' list of devices. */
static int find_listed(const struct limits_page *limits, const void *uuid)
{
    for (uint32_t i = 0; i < limits->device_count && i < PAGE_DEVICES_MAX; i++) {
        if (memcmp(limits->devices[i].uuid, uuid, sizeof(CUuuid)) == 0)
            return (int)i;
    }
    return DEVICES_UNKNOWN;
}

static uint8_t find_place(struct process *p, CUdevice device)
{
    const struct limits_page *limits = p->client.limits;
    CUuuid uuid;
    if (limits->device_count == 0)
        return device < PAGE_DEVICES_MAX ? (uint8_t)(device + 1) : PLACE_UNKNOWN;
    if (!read_uuid(p, device, &uuid))
        return 0; /* the driver is not ready or has no such device; its own calls report that */
    int index = find_listed(limits, &uuid);
    return index < 0 ? PLACE_UNKNOWN : (uint8_t)(index + 1);
}

int devices_index(struct process *p, CUdevice device)
{
    if (device < 0 || device >= DEVICES_MAX)
        return DEVICES_NO_CONTEXT;
    uint8_t place = atomic_load_explicit(&p->devices.places[device], memory_order_relaxed);
    if (place == 0) {
        place = find_place(p, device);
        if (place == 0)
            return DEVICES_NO_CONTEXT;
        atomic_store_explicit(&p->devices.places[device], place, memory_order_relaxed);
    }
    return place == PLACE_UNKNOWN ? DEVICES_UNKNOWN : place - 1;
}

int devices_by_uuid(struct process *p, const uint8_t uuid[16])
{
    CUuuid found;
    int count = 0;
    if (p->client.limits->device_count > 0)
        return find_listed(p->client.limits, uuid);
    if (p->calls.real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return 0; /* no memory is held yet, and all devices have the same limits */
    for (CUdevice i = 0; i < count; i++) {
        if (read_uuid(p, i, &found) && memcmp(&found, uuid, sizeof(found)) == 0)
            return devices_index(p, i);
    }
    return DEVICES_UNKNOWN;
}

int devices_of_stream(struct process *p, CUstream stream, CUdevice *ret_device)
{
    CUcontext context, current = NULL;
    const struct real_calls *real = &p->calls.real;
    CUresult r = CUDA_SUCCESS;
    bool is_pushed = stream > STREAM_PER_THREAD &&
                     real->cuStreamGetCtx(stream, &context) == CUDA_SUCCESS && context &&
                     real->cuCtxGetCurrent(&current) == CUDA_SUCCESS && context != current &&
                     real->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    r = real->cuCtxGetDevice(ret_device);
    if (is_pushed)
        (void)real->cuCtxPopCurrent_v2(&context);
    return r == CUDA_SUCCESS ? devices_index(p, *ret_device) : DEVICES_NO_CONTEXT;
}

int devices_current(struct process *p)
{
    CUdevice device;
    if (p->calls.real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return DEVICES_NO_CONTEXT;
    return devices_index(p, device);
}
