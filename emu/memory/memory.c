/*
 * Device memory. A client's memory on a device is charged in its slot, so that every process reads
 * an exact number, and the memory is freed when the client dies.
 */
#include "emu/device/client.h"
#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum { SMALL_GRANULE_BYTES = 4096, LARGE_GRANULE_BYTES = 2 << 20, LARGE_FROM_BYTES = 1 << 20 };

uint64_t memory_charged(uint64_t bytes)
{
    uint64_t granule = bytes < LARGE_FROM_BYTES ? SMALL_GRANULE_BYTES : LARGE_GRANULE_BYTES;
    return (bytes + granule - 1) / granule * granule;
}

/* Call under the device's lock. */
static void account(struct visible_device *visible, int64_t bytes)
{
    struct device *device = &visible->device;
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[device->own_slot];
    device_save(device, &state->memory_used_bytes, sizeof(state->memory_used_bytes));
    device_save(device, &client->memory_bytes, sizeof(client->memory_bytes));
    state->memory_used_bytes += (uint64_t)bytes;
    client->memory_bytes += (uint64_t)bytes;
    device_commit(device);
}

/* Returns the bytes that the process may still allocate. Call under the device's lock. */
static uint64_t bytes_left(const struct device *device)
{
    const struct emu_device *state = device->state;
    const struct emu_client *client = &state->clients[device->own_slot];
    uint64_t left = state->model.memory_bytes - state->memory_used_bytes;
    if (client->memory_limit_bytes == 0)
        return left;
    uint64_t own_left = client->memory_bytes < client->memory_limit_bytes
                            ? client->memory_limit_bytes - client->memory_bytes
                            : 0;
    return own_left < left ? own_left : left;
}

/* Locks the device while the process's memory is on it: the size of memory that a checkpoint has
 * moved cannot change, so a call that was under way when its process was locked waits here. */
static void lock_present(struct device *device)
{
    enum { LOOK_AGAIN_NS = 1000 * 1000 };
    for (;;) {
        device_lock(device);
        if (device->state->clients[device->own_slot].checkpoint_bytes == 0)
            return;
        device_unlock(device);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
    }
}

int memory_charge(struct visible_device *visible, uint64_t bytes)
{
    struct device *device = &visible->device;
    int r = CUDA_SUCCESS;
    lock_present(device);
    if (bytes > bytes_left(device)) {
        /* Due frees, and the memory of dead clients, come first. */
        device_advance(device, mapping_now_ns(device->mapping));
        client_reap(device);
    }
    if (bytes > bytes_left(device))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else
        account(visible, (int64_t)bytes);
    device_unlock(device);
    return r;
}

void memory_discharge(struct visible_device *visible, uint64_t bytes)
{
    struct device *device = &visible->device;
    if (bytes == 0)
        return;
    lock_present(device);
    account(visible, -(int64_t)bytes);
    device_unlock(device);
}

static int allocate(struct context *context, size_t bytes, uint64_t *ret_address)
{
    if (!ret_address || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > context->visible->device.state->model.memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct allocation added = {
        .kind = ALLOCATION_DEVICE,
        .bytes = bytes,
        .span_bytes = memory_charged(bytes),
        .charged_bytes = memory_charged(bytes),
        .context = context,
    };
    int r = memory_charge(context->visible, added.charged_bytes);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = context->process;
    pthread_mutex_lock(&process->lock);
    int entered = allocations_add(&process->allocations, &added, ret_address);
    pthread_mutex_unlock(&process->lock);
    if (entered < 0) {
        memory_discharge(context->visible, added.charged_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUDA_API int cuMemAlloc_v2(uint64_t *ret_address, size_t bytes)
{
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(context->process);
    return r == CUDA_SUCCESS ? allocate(context, bytes, ret_address) : r;
}

/* Rows start at the device's preferred alignment. */
CUDA_API int cuMemAllocPitch_v2(uint64_t *ret_address, size_t *ret_pitch, size_t width_bytes,
                                size_t height, unsigned element_bytes)
{
    enum { PITCH_BYTES = 512 };
    struct context *context;
    int r = context_current(&context);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(context->process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_pitch || width_bytes == 0 || height == 0 ||
        (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (width_bytes > SIZE_MAX / 2 || height > SIZE_MAX / 2 / (width_bytes + PITCH_BYTES))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t pitch = (width_bytes + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
    r = allocate(context, pitch * height, ret_address);
    if (r == CUDA_SUCCESS)
        *ret_pitch = pitch;
    return r;
}

/*
 * Takes the allocation that starts at `address` out of the table. Without a stream the device gets
 * the memory back at once. With a stream, *ret_later is the number of bytes that the device gets
 * back when the stream has come this far; memory of a pool stays in the pool, for the next
 * allocation or until the program synchronises.
 */
static int take_out(struct process *process, uint64_t address, const struct stream *stream,
                    uint64_t *ret_later)
{
    int r = CUDA_SUCCESS;
    pthread_mutex_lock(&process->lock);
    struct allocation *found = allocations_find(&process->allocations, address, 0);
    if (!found || found->address != address || found->kind == ALLOCATION_MAPPED ||
        found->graph_memory || found->import_count > 0) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        struct visible_device *visible = found->context->visible;
        bool is_later = stream && stream->context->visible == visible;
        *ret_later = is_later && !found->pool ? found->charged_bytes : 0;
        if (found->pool)
            pool_take_back(found->pool, found->charged_bytes, is_later ? stream : NULL);
        else if (!is_later)
            memory_discharge(visible, found->charged_bytes);
        allocations_remove(&process->allocations, found);
        if (!stream)
            pool_shrink_all(process, visible);
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemFree_v2(uint64_t address)
{
    struct context *context;
    uint64_t later;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS || address == 0)
        return r;
    r = capture_check_unsafe(context->process);
    if (r != CUDA_SUCCESS)
        return r;
    struct graph_memory *of_graph = graph_memory_find(context->process, address);
    if (of_graph)
        return graph_memory_free(of_graph);
    return take_out(context->process, address, NULL, &later);
}

/* Memory is available at once, as if from the pool; only its free is in the order of the stream. */
CUDA_API int cuMemAllocAsync(uint64_t *ret_address, size_t bytes, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && stream->capture)
        return memory_capture_allocation(stream, bytes, ret_address);
    if (r == CUDA_SUCCESS)
        r = capture_check_legacy(stream);
    if (r != CUDA_SUCCESS)
        return r;
    return pool_allocate(stream->context, pool_of_context(stream->context), bytes, ret_address);
}

int memory_capture_allocation(struct stream *stream, size_t bytes, uint64_t *ret_address)
{
    struct operation operation = {.type = CUDA_NODE_ALLOCATE};
    if (!ret_address || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int r = graph_memory_make(stream->context, bytes, &operation.memory);
    if (r != CUDA_SUCCESS)
        return r;
    r = capture_add(stream, &operation);
    if (r == CUDA_SUCCESS)
        *ret_address = graph_memory_address(operation.memory);
    graph_memory_release(operation.memory);
    return r;
}

/* A graph frees only memory of graphs. */
static int capture_free(struct stream *stream, uint64_t address)
{
    const struct operation operation = {
        .type = CUDA_NODE_FREE,
        .memory = graph_memory_find(stream->context->process, address),
    };
    return operation.memory ? capture_add(stream, &operation) : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuMemFreeAsync(uint64_t address, struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && stream->capture)
        return address == 0 ? r : capture_free(stream, address);
    if (r == CUDA_SUCCESS)
        r = capture_check_legacy(stream);
    if (r != CUDA_SUCCESS || address == 0)
        return r;
    struct graph_memory *of_graph = graph_memory_find(stream->context->process, address);
    if (of_graph)
        return graph_memory_free(of_graph);
    struct emu_entry entry = {.operation = EMU_FREE};
    r = take_out(stream->context->process, address, stream, &entry.value);
    return r == CUDA_SUCCESS && entry.value > 0 ? stream_push(stream, &entry, NULL) : r;
}

void memory_discard_all(struct context *context)
{
    struct allocations *allocations = &context->process->allocations;
    for (size_t i = allocations->count; i > 0; i--) {
        struct allocation *allocation = &allocations->sorted[i - 1];
        if (allocation->context != context)
            continue;
        if (allocation->pool)
            pool_take_back(allocation->pool, allocation->charged_bytes, NULL);
        else
            memory_discharge(context->visible, allocation->charged_bytes);
        allocations_remove(allocations, allocation);
    }
    pool_shrink_all(context->process, context->visible);
}

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
    *ret_free_bytes = bytes_left(device);
    device_unlock(device);
    return CUDA_SUCCESS;
}

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
