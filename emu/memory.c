/*
 * Device and host memory. What a client holds on a device is accounted in its slot, so that it is
 * exact for every process that looks and given back when the client dies.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emu/client.h"
#include "emu/driver.h"

enum { SMALL_GRANULE_BYTES = 4096, LARGE_GRANULE_BYTES = 2 << 20, LARGE_FROM_BYTES = 1 << 20 };

/* What an allocation costs: whole pages of 2 MiB as on the real device, but small ones only 4 KiB,
 * as if they shared such a page. */
static uint64_t charged(uint64_t bytes)
{
    uint64_t granule = bytes < LARGE_FROM_BYTES ? SMALL_GRANULE_BYTES : LARGE_GRANULE_BYTES;
    return (bytes + granule - 1) / granule * granule;
}

/* Under the device's lock. */
static void account(struct context *context, int64_t bytes)
{
    struct device *device = &context->visible->device;
    struct emu_device *state = device->state;
    struct emu_client *client = context_client(context);
    device_save(device, &state->memory_used_bytes, sizeof(state->memory_used_bytes));
    device_save(device, &client->memory_bytes, sizeof(client->memory_bytes));
    state->memory_used_bytes += (uint64_t)bytes;
    client->memory_bytes += (uint64_t)bytes;
    device_commit(device);
}

static int charge(struct context *context, uint64_t bytes)
{
    struct device *device = &context->visible->device;
    const struct emu_device *state = device->state;
    int r = CUDA_SUCCESS;
    device_lock(device);
    if (bytes > state->model.memory_bytes - state->memory_used_bytes) {
        /* Frees that are due by now, and what the dead held, come first. */
        device_advance(device, mapping_now_ns(device->mapping));
        client_reap(device);
    }
    if (bytes > state->model.memory_bytes - state->memory_used_bytes)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else
        account(context, (int64_t)bytes);
    device_unlock(device);
    return r;
}

static void discharge(struct context *context, uint64_t bytes)
{
    struct device *device = &context->visible->device;
    device_lock(device);
    account(context, -(int64_t)bytes);
    device_unlock(device);
}

static int allocate(struct context *context, size_t bytes, uint64_t *ret_address)
{
    if (!ret_address || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > context->visible->device.state->model.memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t charged_bytes = charged(bytes);
    int r = charge(context, charged_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    int added = allocations_add(&process->allocations, context, bytes, charged_bytes, ret_address);
    pthread_mutex_unlock(&process->lock);
    if (added < 0) {
        discharge(context, charged_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUDA_API int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes);
CUDA_API int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes)
{
    struct context *context;
    int r = context_current(&context);
    return r == CUDA_SUCCESS ? allocate(context, bytes, ret_address) : r;
}

/* Takes the allocation that starts at `address` out of the table. */
static int take_out(struct process *process, uint64_t address, struct context **ret_context,
                    uint64_t *ret_charged_bytes)
{
    int r = CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    struct allocation *found = allocations_find(&process->allocations, address, 0);
    if (!found || found->address != address) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        *ret_context = found->context;
        *ret_charged_bytes = found->charged_bytes;
        allocations_remove(&process->allocations, found);
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemFree_v2(uint64_t address);
CUDA_API int cuMemFree_v2(uint64_t address)
{
    struct context *context, *owner;
    uint64_t charged_bytes;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS || address == 0)
        return r;
    r = take_out(context->process, address, &owner, &charged_bytes);
    if (r == CUDA_SUCCESS)
        discharge(owner, charged_bytes);
    return r;
}

/* Memory is there at once, as if the pool had it; what counts is that it comes back in the order of
 * the stream. */
CUDA_API int cuMemAllocAsync(uint64_t *ret_address, size_t bytes, struct stream *handle);
CUDA_API int cuMemAllocAsync(uint64_t *ret_address, size_t bytes, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    return r == CUDA_SUCCESS ? allocate(stream->context, bytes, ret_address) : r;
}

CUDA_API int cuMemFreeAsync(uint64_t address, struct stream *handle);
CUDA_API int cuMemFreeAsync(uint64_t address, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS || address == 0)
        return r;
    struct context *owner;
    struct emu_entry entry = {.operation = EMU_FREE};
    r = take_out(stream->context->process, address, &owner, &entry.value);
    if (r != CUDA_SUCCESS)
        return r;
    if (owner->visible != stream->context->visible) {
        discharge(owner, entry.value);
        return CUDA_SUCCESS;
    }
    return stream_push(stream, &entry, NULL);
}

void memory_discard_all(struct context *context)
{
    struct allocations *allocations = &context->process->allocations;
    for (size_t i = allocations->count; i > 0; i--) {
        struct allocation *allocation = &allocations->sorted[i - 1];
        if (allocation->context != context)
            continue;
        discharge(context, allocation->charged_bytes);
        allocations_remove(allocations, allocation);
    }
}

CUDA_API int cuMemGetInfo_v2(size_t *ret_free_bytes, size_t *ret_total_bytes);
CUDA_API int cuMemGetInfo_v2(size_t *ret_free_bytes, size_t *ret_total_bytes)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_free_bytes || !ret_total_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = &context->visible->device;
    device_lock_now(device);
    client_reap(device);
    *ret_total_bytes = device->state->model.memory_bytes;
    *ret_free_bytes = *ret_total_bytes - device->state->memory_used_bytes;
    device_unlock(device);
    return CUDA_SUCCESS;
}

CUDA_API int cuMemGetAddressRange_v2(uint64_t *ret_base, size_t *ret_bytes, uint64_t address);
CUDA_API int cuMemGetAddressRange_v2(uint64_t *ret_base, size_t *ret_bytes, uint64_t address)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    const struct allocation *found = allocations_find(&process->allocations, address, 1);
    if (!found)
        r = CUDA_ERROR_NOT_FOUND;
    if (found && ret_base)
        *ret_base = found->address;
    if (found && ret_bytes)
        *ret_bytes = found->bytes;
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned flags);
CUDA_API int cuMemHostAlloc(void **ret_memory, size_t bytes, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_memory || bytes == 0 || (flags & ~(unsigned)CUDA_HOST_ALLOC_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    int put = hash_map_put(&process->host_memory, (uint64_t)(uintptr_t)at, (void *)bytes);
    pthread_mutex_unlock(&process->lock);
    if (put < 0) {
        munmap(at, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_memory = at;
    return CUDA_SUCCESS;
}

CUDA_API int cuMemAllocHost_v2(void **ret_memory, size_t bytes);
CUDA_API int cuMemAllocHost_v2(void **ret_memory, size_t bytes)
{
    return cuMemHostAlloc(ret_memory, bytes, 0);
}

CUDA_API int cuMemFreeHost(void *memory);
CUDA_API int cuMemFreeHost(void *memory)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    size_t bytes =
        (size_t)(uintptr_t)hash_map_remove(&process->host_memory, (uint64_t)(uintptr_t)memory);
    if (process->host_memory.count == 0)
        hash_map_done(&process->host_memory);
    pthread_mutex_unlock(&process->lock);
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(memory, bytes);
    return CUDA_SUCCESS;
}
