/*
 * Memory pools: device memory that stays with the process between allocations. A free returns
 * memory to the pool, in the order of the stream; the pool returns to the device the memory that it
 * holds beyond its release threshold.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum pool_attribute {
    POOL_REUSE_EVENTS = 1,
    POOL_REUSE_OPPORTUNISTIC = 2,
    POOL_REUSE_INTERNAL = 3,
    POOL_RELEASE_THRESHOLD = 4,
    POOL_RESERVED = 5,
    POOL_RESERVED_HIGH = 6,
    POOL_USED = 7,
    POOL_USED_HIGH = 8,
};

struct pool {
    /* Set last: another thread may get the handle without synchronisation. */
    _Atomic uint32_t magic;
    bool is_default;
    bool destroyed; /* by the program; freed with its last allocation */
    struct visible_device *visible;
    struct list link;        /* link in process.pools */
    uint64_t opened;         /* visible.opened for which the numbers below are valid */
    uint64_t reserved_bytes; /* bytes charged to the device */
    uint64_t used_bytes;     /* part of reserved_bytes in allocations */
    uint64_t reserved_high_bytes, used_high_bytes;
    uint64_t threshold_bytes;
    /* By index of the stream: bytes freed in the stream that may be in use before `position`. */
    struct {
        uint64_t bytes, position;
    } freed[EMU_STREAMS_MAX];
    int reuse[POOL_REUSE_INTERNAL + 1]; /* by attribute; stored without effect */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* When the process left the device, the pool lost all memory there. */
static void refresh(struct pool *pool)
{
    if (pool->opened == pool->visible->opened && pool->visible->context_count > 0)
        return;
    pool->opened = pool->visible->opened;
    pool->reserved_bytes = pool->used_bytes = 0;
    pool->reserved_high_bytes = pool->used_high_bytes = 0;
    for (unsigned i = 0; i < EMU_STREAMS_MAX; i++)
        pool->freed[i].bytes = 0;
}

/* Returns the bytes freed in streams that have not reached the free. */
static uint64_t freed_bytes(struct pool *pool)
{
    struct device *device = &pool->visible->device;
    uint64_t sum = 0;
    if (pool->visible->context_count == 0)
        return 0;
    device_lock_now(device);
    const struct emu_client *client = &device->state->clients[device->own_slot];
    for (unsigned i = 0; i < EMU_STREAMS_MAX; i++) {
        if (client->streams[i].head >= pool->freed[i].position)
            pool->freed[i].bytes = 0;
        sum += pool->freed[i].bytes;
    }
    device_unlock(device);
    return sum;
}

/* Returns unused memory beyond `keep_bytes` to the device. */
static void shrink(struct pool *pool, uint64_t keep_bytes)
{
    uint64_t stay_bytes = larger(pool->used_bytes, keep_bytes);
    if (pool->reserved_bytes <= stay_bytes)
        return;
    stay_bytes = larger(pool->used_bytes + freed_bytes(pool), keep_bytes);
    if (pool->reserved_bytes <= stay_bytes)
        return;
    uint64_t excess_bytes = pool->reserved_bytes - stay_bytes;
    pool->reserved_bytes = stay_bytes;
    memory_discharge(pool->visible, excess_bytes);
}

static void free_pool(struct pool *pool)
{
    list_remove(&pool->link);
    pool->magic = DEAD_MAGIC;
    free(pool);
}

/* A destroyed pool keeps no unused memory: the last of it goes with the last allocation. */
static void shrink_destroyed(struct pool *pool)
{
    if (pool->used_bytes == 0)
        memset(pool->freed, 0, sizeof(pool->freed));
    shrink(pool, 0);
    if (pool->used_bytes == 0)
        free_pool(pool);
}

void pool_take_back(struct pool *pool, uint64_t charged_bytes, const struct stream *stream)
{
    refresh(pool);
    pool->used_bytes -= charged_bytes;
    if (stream) {
        pool->freed[stream->index].bytes += charged_bytes;
        pool->freed[stream->index].position = stream_tail(stream);
    }
    if (pool->destroyed)
        shrink_destroyed(pool);
}

void pool_shrink_all(struct process *process, struct visible_device *visible)
{
    list_for_each (it, &process->pools) {
        struct pool *pool = list_entry(it, struct pool, link);
        if (pool->visible != visible)
            continue;
        refresh(pool);
        shrink(pool, pool->threshold_bytes);
    }
}

int pool_synchronized(struct context *context, int result)
{
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&context->process->lock);
    pool_shrink_all(context->process, context->visible);
    pthread_mutex_unlock(&context->process->lock);
    return result;
}

/* Call under process.lock. */
static struct pool *make_pool(struct process *process, struct visible_device *visible)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    pool->visible = visible;
    pool->opened = visible->opened;
    for (int i = POOL_REUSE_EVENTS; i <= POOL_REUSE_INTERNAL; i++)
        pool->reuse[i] = 1;
    list_append(&process->pools, &pool->link);
    atomic_store_explicit(&pool->magic, POOL_MAGIC, memory_order_release);
    return pool;
}

/* Returns the device's default pool, or NULL without memory for it. Call under process.lock. */
static struct pool *default_pool(struct process *process, struct visible_device *visible)
{
    if (!visible->default_pool) {
        visible->default_pool = make_pool(process, visible);
        if (visible->default_pool)
            visible->default_pool->is_default = true;
    }
    return visible->default_pool;
}

struct pool *pool_of_context(struct context *context)
{
    struct visible_device *visible = context->visible;
    pthread_mutex_lock(&context->process->lock);
    struct pool *pool =
        visible->current_pool ? visible->current_pool : default_pool(context->process, visible);
    pthread_mutex_unlock(&context->process->lock);
    return pool;
}

/* Call under process.lock. */
static int enter(struct context *context, struct pool *pool, size_t bytes, uint64_t *ret_address)
{
    struct allocation added = {
        .kind = ALLOCATION_DEVICE,
        .bytes = bytes,
        .span_bytes = memory_charged(bytes),
        .charged_bytes = memory_charged(bytes),
        .context = context,
        .pool = pool,
    };
    refresh(pool);
    uint64_t needed_bytes = pool->used_bytes + added.charged_bytes;
    uint64_t more_bytes =
        needed_bytes > pool->reserved_bytes ? needed_bytes - pool->reserved_bytes : 0;
    int r = more_bytes > 0 ? memory_charge(pool->visible, more_bytes) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        return r;
    pool->reserved_bytes += more_bytes;
    if (allocations_add(&context->process->allocations, &added, ret_address) < 0) {
        shrink(pool, pool->threshold_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->used_bytes = needed_bytes;
    pool->used_high_bytes = larger(pool->used_high_bytes, pool->used_bytes);
    pool->reserved_high_bytes = larger(pool->reserved_high_bytes, pool->reserved_bytes);
    return CUDA_SUCCESS;
}

int pool_allocate(struct context *context, struct pool *pool, size_t bytes, uint64_t *ret_address)
{
    if (!ret_address || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pool || bytes > context->visible->device.state->model.memory_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&context->process->lock);
    int r = enter(context, pool, bytes, ret_address);
    pthread_mutex_unlock(&context->process->lock);
    return r;
}

static int pool_resolve(const struct pool *pool, struct process **ret_process)
{
    int r = process_ready(ret_process);
    if (r != CUDA_SUCCESS)
        return r;
    return pool && atomic_load_explicit(&pool->magic, memory_order_acquire) == POOL_MAGIC &&
                   !pool->destroyed
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/* The calls about pools return the same error for a wrong device as for any other wrong value,
 * except cuDeviceGetDefaultMemPool. */
static int without_device(int r)
{
    return r == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_VALUE : r;
}

CUDA_API int cuMemAllocFromPoolAsync(uint64_t *ret_address, size_t bytes, struct pool *pool,
                                     struct stream *handle)
{
    struct process *process;
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS)
        r = pool_resolve(pool, &process);
    if (r == CUDA_SUCCESS)
        r = capture_check_legacy(stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (pool->visible != stream->context->visible)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (stream->capture) /* graphs have a reserve of their own */
        return memory_capture_allocation(stream, bytes, ret_address);
    return pool_allocate(stream->context, pool, bytes, ret_address);
}

CUDA_API int cuDeviceGetDefaultMemPool(struct pool **ret_pool, int ordinal)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_pool)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    struct pool *pool = default_pool(process, visible);
    pthread_mutex_unlock(&process->lock);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_pool = pool;
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceGetMemPool(struct pool **ret_pool, int ordinal)
{
    int r = cuDeviceGetDefaultMemPool(ret_pool, ordinal);
    if (r != CUDA_SUCCESS)
        return without_device(r);
    struct visible_device *visible = (*ret_pool)->visible;
    if (visible->current_pool)
        *ret_pool = visible->current_pool;
    return CUDA_SUCCESS;
}

CUDA_API int cuDeviceSetMemPool(int ordinal, struct pool *pool)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_device(ordinal, &process, &visible);
    if (r == CUDA_SUCCESS)
        r = pool_resolve(pool, &process);
    if (r != CUDA_SUCCESS)
        return without_device(r);
    if (pool->visible != visible)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&process->lock);
    visible->current_pool = pool;
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuMemPoolCreate(struct pool **ret_pool, const CUmemPoolProps *wanted)
{
    struct process *process;
    struct visible_device *visible;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_pool || !wanted || wanted->allocType != CUDA_ALLOCATION_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (wanted->location.type != CUDA_LOCATION_DEVICE || wanted->handleTypes != 0 ||
        wanted->maxSize != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    r = process_device(wanted->location.id, &process, &visible);
    if (r != CUDA_SUCCESS)
        return without_device(r);
    pthread_mutex_lock(&process->lock);
    struct pool *pool = make_pool(process, visible);
    pthread_mutex_unlock(&process->lock);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_pool = pool;
    return CUDA_SUCCESS;
}

CUDA_API int cuMemPoolDestroy(struct pool *pool)
{
    struct process *process;
    int r = pool_resolve(pool, &process);
    if (r != CUDA_SUCCESS)
        return r;
    if (pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    struct visible_device *visible = pool->visible;
    pthread_mutex_lock(&process->lock);
    refresh(pool);
    if (visible->current_pool == pool)
        visible->current_pool = NULL;
    pool->destroyed = true;
    shrink_destroyed(pool);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuMemPoolTrimTo(struct pool *pool, size_t keep_bytes)
{
    struct process *process;
    int r = pool_resolve(pool, &process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    refresh(pool);
    shrink(pool, keep_bytes);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

/* Returns the 64-bit number behind an attribute, or NULL. Call under process.lock. */
static uint64_t *number_of(struct pool *pool, int attribute)
{
    switch (attribute) {
    case POOL_RELEASE_THRESHOLD:
        return &pool->threshold_bytes;
    case POOL_RESERVED:
        return &pool->reserved_bytes;
    case POOL_RESERVED_HIGH:
        return &pool->reserved_high_bytes;
    case POOL_USED:
        return &pool->used_bytes;
    case POOL_USED_HIGH:
        return &pool->used_high_bytes;
    default:
        return NULL;
    }
}

static bool is_reuse(int attribute)
{
    return attribute >= POOL_REUSE_EVENTS && attribute <= POOL_REUSE_INTERNAL;
}

CUDA_API int cuMemPoolGetAttribute(struct pool *pool, int attribute, void *ret_value)
{
    struct process *process;
    int r = pool_resolve(pool, &process);
    if (r != CUDA_SUCCESS)
        return r;
    const uint64_t *number = number_of(pool, attribute);
    if (!ret_value || (!number && !is_reuse(attribute)))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    refresh(pool);
    if (number)
        *(uint64_t *)ret_value = *number;
    else
        *(int *)ret_value = pool->reuse[attribute];
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

/* A high-water mark can only be reset, by 0, to the present value. Call under process.lock. */
static int set_number(struct pool *pool, int attribute, uint64_t value)
{
    switch (attribute) {
    case POOL_RELEASE_THRESHOLD:
        pool->threshold_bytes = value;
        return CUDA_SUCCESS;
    case POOL_RESERVED_HIGH:
    case POOL_USED_HIGH:
        if (value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        *number_of(pool, attribute) = *number_of(pool, attribute - 1);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUDA_API int cuMemPoolSetAttribute(struct pool *pool, int attribute, void *value)
{
    struct process *process;
    int r = pool_resolve(pool, &process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    refresh(pool);
    if (is_reuse(attribute))
        pool->reuse[attribute] = *(int *)value != 0;
    else
        r = set_number(pool, attribute, *(uint64_t *)value);
    pthread_mutex_unlock(&process->lock);
    return r;
}

/* Only the pool's own device can access its memory. */
CUDA_API int cuMemPoolGetAccess(int *ret_flags, struct pool *pool, CUmemLocation *location)
{
    enum { ACCESS_NONE = 0, ACCESS_READ_WRITE = 3 };
    struct process *process;
    struct visible_device *visible;
    int r = pool_resolve(pool, &process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_flags || !location || location->type != CUDA_LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    r = process_device(location->id, &process, &visible);
    if (r == CUDA_SUCCESS)
        *ret_flags = visible == pool->visible ? ACCESS_READ_WRITE : ACCESS_NONE;
    return without_device(r);
}

/* Since CUDA 13: the pool of a location, by type of allocation. */
static int check_place(const CUmemLocation *location, int type)
{
    if (!location || type != CUDA_ALLOCATION_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return location->type == CUDA_LOCATION_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUDA_API int cuMemGetDefaultMemPool(struct pool **ret_pool, CUmemLocation *location, int type)
{
    int r = check_place(location, type);
    return r == CUDA_SUCCESS ? without_device(cuDeviceGetDefaultMemPool(ret_pool, location->id))
                             : r;
}

CUDA_API int cuMemGetMemPool(struct pool **ret_pool, CUmemLocation *location, int type)
{
    int r = check_place(location, type);
    return r == CUDA_SUCCESS ? cuDeviceGetMemPool(ret_pool, location->id) : r;
}

CUDA_API int cuMemSetMemPool(CUmemLocation *location, int type, struct pool *pool)
{
    int r = check_place(location, type);
    return r == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : r;
}
