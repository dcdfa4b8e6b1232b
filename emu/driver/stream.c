/* Streams: queues of operations that the device executes in order. */
#include <stdlib.h>
#include <string.h>

#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum stream_attribute {
    STREAM_ACCESS_POLICY = 1,
    STREAM_SYNC_POLICY = 3,
    STREAM_PRIORITY = 8,
    STREAM_SYNC_DOMAIN_MAP = 9,
    STREAM_SYNC_DOMAIN = 10,

    STREAM_SYNC_AUTO = 1, /* first value of STREAM_SYNC_POLICY */
};

static struct emu_stream *shared_stream(const struct stream *stream)
{
    return &context_client(stream->context)->streams[stream->index];
}

void stream_init(struct stream *stream, struct context *context, unsigned index, unsigned flags,
                 int priority)
{
    *stream = (struct stream){
        .magic = STREAM_MAGIC,
        .index = index,
        .context = context,
        .flags = flags,
        .priority = priority,
        .id = process_next_id(context->process),
    };
    stream->attributes[STREAM_SYNC_POLICY].pad[0] = STREAM_SYNC_AUTO;
    list_init(&stream->link);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_init(&stream->host_lock, NULL);
}

static int stream_of_thread(struct context *context, struct stream **ret_stream);

int stream_resolve_capturing(struct stream *handle, struct stream **ret_stream)
{
    struct context *current;
    int r = context_current(&current);
    if (r != CUDA_SUCCESS)
        return r;
    if (handle == STREAM_PER_THREAD || (!handle && process_thread()->has_own_default))
        return stream_of_thread(current, ret_stream);
    if (handle == NULL || handle == STREAM_LEGACY) {
        *ret_stream = &current->legacy;
        return CUDA_SUCCESS;
    }
    if (handle->magic != STREAM_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle->context->destroyed)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_stream = handle;
    return CUDA_SUCCESS;
}

int stream_resolve(struct stream *handle, struct stream **ret_stream)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS)
        r = stream->capture ? capture_refuse(stream) : capture_check_legacy(stream);
    if (r == CUDA_SUCCESS)
        *ret_stream = stream;
    return r;
}

uint64_t stream_tail(const struct stream *stream)
{
    return atomic_load_explicit(&shared_stream(stream)->tail, memory_order_acquire);
}

/* Call under stream->lock. */
static int make_room(struct stream *stream, const struct emu_stream *shared, uint64_t tail)
{
    if (tail - atomic_load_explicit(&shared->free_head, memory_order_acquire) < EMU_RING_ENTRIES)
        return CUDA_SUCCESS;
    return stream_wait(stream->context, stream->index, tail + 1 - EMU_RING_ENTRIES);
}

int stream_push(struct stream *stream, const struct emu_entry *entry, uint64_t *ret_position)
{
    struct emu_stream *shared = shared_stream(stream);
    struct visible_device *visible = stream->context->visible;
    pthread_mutex_lock(&stream->lock);
    uint64_t tail = atomic_load_explicit(&shared->tail, memory_order_relaxed);
    int r = make_room(stream, shared, tail);
    if (r == CUDA_SUCCESS) {
        struct emu_entry *slot = &shared->ring[tail % EMU_RING_ENTRIES];
        *slot = *entry;
        slot->order = atomic_fetch_add_explicit(&visible->launches, 1, memory_order_relaxed) + 1;
        slot->enqueued_ns = mapping_now_ns(visible->device.mapping);
        atomic_store_explicit(&shared->tail, tail + 1, memory_order_release);
        if (ret_position)
            *ret_position = tail + 1;
    }
    pthread_mutex_unlock(&stream->lock);
    return r;
}

int stream_wait(struct context *context, unsigned index, uint64_t position)
{
    struct device *device = &context->visible->device;
    for (;;) {
        uint32_t alarms = mapping_alarms(device->mapping);
        device_lock_now(device);
        if (device->own_slot == DEVICE_NO_SLOT) {
            device_unlock(device);
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        }
        int error = context_error(context);
        uint64_t now_ns = device->state->usage.time_ns;
        uint64_t bound_ns =
            device_stream_bound_ns(device, (unsigned)device->own_slot, index, position);
        device_unlock(device);
        if (error != CUDA_SUCCESS || bound_ns == 0)
            return error;
        device_sleep(device, now_ns + bound_ns, alarms);
    }
}

/* Takes an index that is free, or that a destroyed stream has left empty. Call under the device's
 * lock. */
static int take_index(struct device *device, struct emu_client *client, bool blocking, int priority,
                      unsigned *ret_index)
{
    for (unsigned index = 1; index < EMU_STREAMS_MAX; index++) {
        uint64_t bit = UINT64_C(1) << index;
        struct emu_stream *shared = &client->streams[index];
        bool used = (client->streams_used & bit) != 0;
        bool left = (client->streams_closing & bit) != 0 &&
                    shared->head == atomic_load_explicit(&shared->tail, memory_order_relaxed);
        if (used && !left)
            continue;
        if (!used) {
            /* This client has never used the index: drops the state of a former owner of the slot.
             * No process reads it before its bit is set. */
            memset(shared, 0, offsetof(struct emu_stream, ring));
        }
        device_save(device, &shared->blocking, sizeof(shared->blocking));
        device_save(device, &shared->priority, sizeof(shared->priority));
        device_save(device, &client->streams_used, sizeof(client->streams_used));
        device_save(device, &client->streams_closing, sizeof(client->streams_closing));
        shared->blocking = blocking;
        shared->priority = priority;
        client->streams_used |= bit;
        client->streams_closing &= ~bit;
        device_commit(device);
        *ret_index = index;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static int make_stream(struct context *context, unsigned flags, int priority,
                       struct stream **ret_stream)
{
    struct stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct device *device = &context->visible->device;
    unsigned index;
    device_lock_now(device);
    int r = take_index(device, context_client(context), (flags & CUDA_STREAM_NON_BLOCKING) == 0,
                       priority, &index);
    device_unlock(device);
    if (r != CUDA_SUCCESS) {
        free(stream);
        return r;
    }
    stream_init(stream, context, index, flags, priority);
    pthread_mutex_lock(&context->process->lock);
    list_append(&context->streams, &stream->link);
    pthread_mutex_unlock(&context->process->lock);
    *ret_stream = stream;
    return CUDA_SUCCESS;
}

/* Returns the calling thread's own default stream in a context. */
static int stream_of_thread(struct context *context, struct stream **ret_stream)
{
    struct thread_state *thread = process_thread();
    if (thread->own_context == context && thread->own_opened == context->opened) {
        *ret_stream = thread->own_stream;
        return CUDA_SUCCESS;
    }
    struct stream *found = NULL;
    pthread_mutex_lock(&context->process->lock);
    list_for_each (it, &context->streams) {
        struct stream *stream = list_entry(it, struct stream, link);
        if (stream->thread == thread)
            found = stream;
    }
    pthread_mutex_unlock(&context->process->lock);
    int r = found ? CUDA_SUCCESS : make_stream(context, 0, CUDA_PRIORITY_LEAST, &found);
    if (r != CUDA_SUCCESS)
        return r;
    found->thread = thread;
    process_watch_thread();
    thread->own_context = context;
    thread->own_opened = context->opened;
    thread->own_stream = found;
    *ret_stream = found;
    return CUDA_SUCCESS;
}

CUDA_API int cuStreamCreateWithPriority(struct stream **ret_stream, unsigned flags, int priority)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_stream || (flags & ~(unsigned)CUDA_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > CUDA_PRIORITY_LEAST)
        priority = CUDA_PRIORITY_LEAST;
    if (priority < CUDA_PRIORITY_GREATEST)
        priority = CUDA_PRIORITY_GREATEST;
    return make_stream(context, flags, priority, ret_stream);
}

CUDA_API int cuStreamCreate(struct stream **ret_stream, unsigned flags)
{
    return cuStreamCreateWithPriority(ret_stream, flags, CUDA_PRIORITY_LEAST);
}

static void free_stream(struct stream *stream)
{
    list_remove(&stream->link);
    if (stream->gate)
        event_discard(stream->gate);
    if (stream->capture)
        capture_discard(stream);
    pthread_mutex_destroy(&stream->lock);
    pthread_mutex_destroy(&stream->host_lock);
    stream->magic = DEAD_MAGIC;
    free(stream);
}

/* Queued work continues; the index is free again when that work has finished. Call under
 * process.lock. */
static void close_stream(struct stream *stream)
{
    struct device *device = &stream->context->visible->device;
    struct emu_client *client = context_client(stream->context);
    device_lock(device);
    device_save(device, &client->streams_closing, sizeof(client->streams_closing));
    client->streams_closing |= UINT64_C(1) << stream->index;
    device_commit(device);
    device_unlock(device);
    free_stream(stream);
}

void stream_discard_all(struct context *context)
{
    list_for_each_safe (it, &context->streams)
        close_stream(list_entry(it, struct stream, link));
}

void stream_discard_thread(const struct thread_state *thread)
{
    struct process *process;
    if (process_ready(&process) != CUDA_SUCCESS)
        return;
    pthread_mutex_lock(&process->lock);
    list_for_each (c, &process->contexts) {
        struct context *context = list_entry(c, struct context, link);
        if (context->destroyed)
            continue;
        list_for_each_safe (it, &context->streams) {
            struct stream *stream = list_entry(it, struct stream, link);
            if (stream->thread == thread)
                close_stream(stream);
        }
    }
    pthread_mutex_unlock(&process->lock);
}

CUDA_API int cuStreamDestroy_v2(struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = stream->context->process;
    if (stream == &stream->context->legacy || stream->thread)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&process->lock);
    close_stream(stream);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuStreamDestroy(struct stream *handle)
{
    return cuStreamDestroy_v2(handle);
}

CUDA_API int cuStreamSynchronize(struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    return pool_synchronized(stream->context,
                             stream_wait(stream->context, stream->index, stream_tail(stream)));
}

CUDA_API int cuStreamQuery(struct stream *handle)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    struct device *device = &stream->context->visible->device;
    uint64_t tail = stream_tail(stream);
    device_lock_now(device);
    bool done = shared_stream(stream)->head >= tail;
    device_unlock(device);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Resolves the stream of a query, which must have a place for its answer. */
static int resolve_query(struct stream *handle, const void *answer, struct stream **ret_stream)
{
    int r = stream_resolve_capturing(handle, ret_stream);
    return r == CUDA_SUCCESS && !answer ? CUDA_ERROR_INVALID_VALUE : r;
}

CUDA_API int cuStreamGetPriority(struct stream *handle, int *ret_priority)
{
    struct stream *stream;
    int r = resolve_query(handle, ret_priority, &stream);
    if (r == CUDA_SUCCESS)
        *ret_priority = stream->priority;
    return r;
}

CUDA_API int cuStreamGetFlags(struct stream *handle, unsigned *ret_flags)
{
    struct stream *stream;
    int r = resolve_query(handle, ret_flags, &stream);
    if (r == CUDA_SUCCESS)
        *ret_flags = stream->flags;
    return r;
}

CUDA_API int cuStreamGetCtx(struct stream *handle, struct context **ret_context)
{
    struct stream *stream;
    int r = resolve_query(handle, ret_context, &stream);
    if (r == CUDA_SUCCESS)
        *ret_context = stream->context;
    return r;
}

/* Returns a number that no other stream of the process has had. */
CUDA_API int cuStreamGetId(struct stream *handle, unsigned long long *ret_id)
{
    struct stream *stream;
    int r = resolve_query(handle, ret_id, &stream);
    if (r == CUDA_SUCCESS)
        *ret_id = stream->id;
    return r;
}

CUDA_API int cuStreamGetDevice(struct stream *handle, int *ret_ordinal)
{
    struct stream *stream;
    int r = resolve_query(handle, ret_ordinal, &stream);
    if (r == CUDA_SUCCESS)
        *ret_ordinal = (int)stream->context->ordinal;
    return r;
}

/* Since CUDA 12.5, which has contexts for parts of a device; these are not emulated. */
CUDA_API int cuStreamGetCtx_v2(struct stream *handle, struct context **ret_context,
                               CUgreenCtx *ret_green_context)
{
    int r = cuStreamGetCtx(handle, ret_context);
    if (r == CUDA_SUCCESS && ret_green_context)
        *ret_green_context = NULL;
    return r;
}

static bool is_attribute(int attribute)
{
    return attribute == STREAM_ACCESS_POLICY || attribute == STREAM_SYNC_POLICY ||
           attribute == STREAM_PRIORITY || attribute == STREAM_SYNC_DOMAIN_MAP ||
           attribute == STREAM_SYNC_DOMAIN;
}

/* Attributes change how work is done, not which work; they are only stored. */
CUDA_API int cuStreamGetAttribute(struct stream *handle, int attribute,
                                  CUstreamAttrValue *ret_value)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && (!ret_value || !is_attribute(attribute)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    *ret_value = stream->attributes[attribute];
    if (attribute == STREAM_PRIORITY)
        memcpy(ret_value, &stream->priority, sizeof(stream->priority));
    return CUDA_SUCCESS;
}

CUDA_API int cuStreamSetAttribute(struct stream *handle, int attribute,
                                  const CUstreamAttrValue *value)
{
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && (!value || !is_attribute(attribute)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && attribute == STREAM_PRIORITY)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        stream->attributes[attribute] = *value;
    return r;
}

CUDA_API int cuStreamCopyAttributes(struct stream *to_handle, struct stream *from_handle)
{
    struct stream *to, *from;
    int r = stream_resolve_capturing(to_handle, &to);
    if (r == CUDA_SUCCESS)
        r = stream_resolve_capturing(from_handle, &from);
    if (r == CUDA_SUCCESS)
        memcpy(to->attributes, from->attributes, sizeof(to->attributes));
    return r;
}
