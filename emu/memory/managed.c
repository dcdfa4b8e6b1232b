/*
 * Managed memory. The host may access it, and emulated kernels access nothing: prefetches alone
 * decide its location. Managed memory takes device memory for the part that was prefetched there.
 */
#include "emu/device/client.h"
#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum { ATTACH_GLOBAL = 1, ATTACH_HOST = 2, LEGACY_HOST_DEVICE = -1 };
enum advice {
    ADVICE_FIRST = 1, /* read mostly */
    ADVICE_PREFERRED_LOCATION = 3,
    ADVICE_ACCESSED_BY = 5,
    ADVICE_LAST = 6,
};

CUDA_API int cuMemAllocManaged(uint64_t *ret_address, size_t bytes, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(context->process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_address || bytes == 0 || (flags != ATTACH_GLOBAL && flags != ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX / 2)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct allocation added = {
        .kind = ALLOCATION_MANAGED,
        .bytes = bytes,
        .span_bytes = memory_charged(bytes),
        .context = context,
    };
    pthread_mutex_lock(&context->process->lock);
    if (allocations_add(&context->process->allocations, &added, ret_address) < 0)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&context->process->lock);
    if (r == CUDA_SUCCESS)
        client_pin_down(&context->visible->device);
    return r;
}

static struct allocation *find_managed(struct process *process, uint64_t address, size_t bytes)
{
    struct allocation *found = allocations_find(&process->allocations, address, bytes);
    return found && found->kind == ALLOCATION_MANAGED ? found : NULL;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Moves memory on a prefetch, which is a hint: with a full device the memory stays where it is.
 * Returns the number of bytes moved. Call under process.lock. */
static uint64_t move(struct allocation *managed, uint64_t bytes, bool to_device)
{
    struct visible_device *visible = managed->context->visible;
    uint64_t there_bytes =
        to_device ? managed->charged_bytes : managed->span_bytes - managed->charged_bytes;
    uint64_t moved_bytes = smaller(memory_charged(bytes), managed->span_bytes - there_bytes);
    if (moved_bytes == 0)
        return 0;
    if (!to_device) {
        memory_discharge(visible, moved_bytes);
        managed->charged_bytes -= moved_bytes;
    } else if (memory_charge(visible, moved_bytes) == CUDA_SUCCESS) {
        managed->charged_bytes += moved_bytes;
    } else {
        moved_bytes = 0;
    }
    return moved_bytes;
}

static int check_location(const struct process *process, const CUmemLocation *location)
{
    switch (location->type) {
    case CUDA_LOCATION_DEVICE:
        return location->id >= 0 && (unsigned)location->id < process->device_count
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_DEVICE;
    case CUDA_LOCATION_HOST:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUDA_API int cuMemPrefetchAsync_v2(uint64_t address, size_t bytes, CUmemLocation location,
                                   unsigned flags, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = stream->context->process;
    if (bytes == 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_location(process, &location);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t moved_bytes = 0;
    pthread_mutex_lock(&process->lock);
    struct allocation *managed = find_managed(process, address, bytes);
    bool to_device = location.type == CUDA_LOCATION_DEVICE;
    if (!managed)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (to_device && managed->context->ordinal != (unsigned)location.id)
        r = CUDA_ERROR_NOT_SUPPORTED; /* memory that moves between devices */
    else
        moved_bytes = move(managed, bytes, to_device);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS || moved_bytes == 0)
        return r;
    return copy_spend_host(stream, moved_bytes, to_device ? EMU_TO_DEVICE : EMU_FROM_DEVICE);
}

/* The older calls name the host as device -1. */
static CUmemLocation location_of(int device)
{
    return device == LEGACY_HOST_DEVICE ? (CUmemLocation){CUDA_LOCATION_HOST, 0}
                                        : (CUmemLocation){CUDA_LOCATION_DEVICE, device};
}

CUDA_API int cuMemPrefetchAsync(uint64_t address, size_t bytes, int device, struct stream *handle)
{
    return cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, handle);
}

/* Advice changes the speed of memory, never its contents; here it changes nothing. */
CUDA_API int cuMemAdvise_v2(uint64_t address, size_t bytes, int advice, CUmemLocation location)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (bytes == 0 || advice < ADVICE_FIRST || advice > ADVICE_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == ADVICE_PREFERRED_LOCATION || advice == ADVICE_ACCESSED_BY)
        r = check_location(process, &location) == CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    if (r == CUDA_SUCCESS && !find_managed(process, address, bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemAdvise(uint64_t address, size_t bytes, int advice, int device)
{
    struct process *process;
    CUmemLocation location = location_of(device);
    int r = process_ready(&process);
    if (r == CUDA_SUCCESS && (advice == ADVICE_PREFERRED_LOCATION || advice == ADVICE_ACCESSED_BY))
        r = check_location(process, &location);
    return r == CUDA_SUCCESS ? cuMemAdvise_v2(address, bytes, advice, location) : r;
}
