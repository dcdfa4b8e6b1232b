/* Events: points in a stream, and the emulated time at which the device reached them. */
#include <stdlib.h>
#include <string.h>

#include "emu/driver/ipc.h"
#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

int event_resolve(const struct event *event)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!event || event->magic != EVENT_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    return event->context->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                     : context_error(event->context);
}

static const struct emu_event *shared_event(const struct event *event)
{
    return &context_client(event->context)->events[event->index];
}

/* Call under the device's lock. */
static bool is_reached(const struct event *event)
{
    if (event->share)
        return event_share_is_reached(event->share);
    return event->records == 0 ||
           shared_event(event)->records_done >= event->records_before + event->records;
}

/* Takes an index that no event of a context on the device has, and whose last record was reached: a
 * pending record would count for the new event. Call under process.lock. */
static int take_index(struct context *context, unsigned *ret_index, uint64_t *ret_records)
{
    static_assert(EMU_EVENTS_MAX % 64 == 0, "whole words");
    uint64_t taken[EMU_EVENTS_MAX / 64] = {0};
    list_for_each (c, &context->process->contexts) {
        const struct context *other = list_entry(c, struct context, link);
        if (other->destroyed || other->visible != context->visible)
            continue;
        list_for_each (it, &other->events) {
            unsigned index = list_entry(it, struct event, link)->index;
            taken[index / 64] |= UINT64_C(1) << (index % 64);
        }
    }
    struct visible_device *visible = context->visible;
    for (unsigned index = 0; index < EMU_EVENTS_MAX; index++) {
        if (taken[index / 64] & (UINT64_C(1) << (index % 64)))
            continue;
        uint64_t done = context_client(context)->events[index].records_done;
        if (done < visible->event_records[index])
            continue;
        *ret_index = index;
        *ret_records = visible->event_records[index];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

int event_make(struct context *context, unsigned flags, struct event **ret_event)
{
    struct event *event = calloc(1, sizeof(*event));
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct device *device = &context->visible->device;
    pthread_mutex_lock(&context->process->lock);
    device_lock_now(device);
    int r = take_index(context, &event->index, &event->records_before);
    device_unlock(device);
    if (r == CUDA_SUCCESS) {
        event->magic = EVENT_MAGIC;
        event->context = context;
        event->flags = flags;
        event->references = 1;
        list_append(&context->events, &event->link);
        *ret_event = event;
    } else {
        free(event);
    }
    pthread_mutex_unlock(&context->process->lock);
    return r;
}

CUDA_API int cuEventCreate(struct event **ret_event, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_event || (flags & ~(unsigned)CUDA_EVENT_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_EVENT_INTERPROCESS) == 0)
        return event_make(context, flags, ret_event);
    if ((flags & CUDA_EVENT_DISABLE_TIMING) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return event_share_make(context, flags, ret_event);
}

uint64_t event_reserve_record(struct event *event)
{
    struct context *context = event->context;
    pthread_mutex_lock(&context->process->lock);
    uint64_t number = event->records_before + ++event->records;
    context->visible->event_records[event->index] = number;
    pthread_mutex_unlock(&context->process->lock);
    return number;
}

struct event *event_retain(struct event *event)
{
    event->references++;
    return event;
}

void event_release(struct event *event)
{
    if (--event->references > 0)
        return;
    if (event->share)
        event_share_free(event->share);
    free(event);
}

/* Graphs may still hold the event; they no longer wait for it. */
void event_discard(struct event *event)
{
    list_remove(&event->link);
    capture_leave_event(event);
    event->magic = DEAD_MAGIC;
    event_release(event);
}

void event_discard_all(struct context *context)
{
    list_for_each_safe (it, &context->events)
        event_discard(list_entry(it, struct event, link));
}

CUDA_API int cuEventDestroy_v2(struct event *event)
{
    int r = event_resolve(event);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = event->context->process;
    pthread_mutex_lock(&process->lock);
    event_discard(event);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuEventDestroy(struct event *event)
{
    return cuEventDestroy_v2(event);
}

int event_record_run(struct event *event, struct stream *stream)
{
    if (event->magic != EVENT_MAGIC)
        return CUDA_SUCCESS; /* held by a graph, and destroyed meanwhile */
    if (stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->share)
        return event_share_record(event, stream);
    struct process *process = event->context->process;
    pthread_mutex_lock(&process->lock);
    struct emu_entry entry = {
        .operation = EMU_RECORD,
        .target = event->index,
        .value = event->records_before + event->records + 1,
    };
    uint64_t position;
    int r = stream_push(stream, &entry, &position);
    if (r == CUDA_SUCCESS) {
        event->records++;
        event->stream = stream->index;
        event->stream_position = position;
        event->context->visible->event_records[event->index] = entry.value;
        capture_leave_event(event);
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

/* In a capture, a record only notes the nodes that precede the event. An external record becomes a
 * node, and every launch records the event. */
CUDA_API int cuEventRecordWithFlags(struct event *event, struct stream *handle, unsigned flags)
{
    enum { RECORD_EXTERNAL = 1 };
    const struct operation operation = {.type = CUDA_NODE_RECORD_EVENT, .event = event};
    struct stream *stream;
    int r = event_resolve(event);
    if (r == CUDA_SUCCESS)
        r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags > RECORD_EXTERNAL || (flags == RECORD_EXTERNAL && !stream->capture))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture && flags != RECORD_EXTERNAL)
        return capture_record_event(event, stream);
    return operation_submit_to(stream, &operation);
}

CUDA_API int cuEventRecord(struct event *event, struct stream *handle)
{
    return cuEventRecordWithFlags(event, handle, 0);
}

CUDA_API int cuEventQuery(struct event *event)
{
    int r = event_resolve(event);
    if (r == CUDA_SUCCESS && capture_has_event(event))
        r = capture_refuse_event(event);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe(event->context->process);
    if (r != CUDA_SUCCESS)
        return r;
    struct device *device = &event->context->visible->device;
    device_lock_now(device);
    bool reached = is_reached(event);
    device_unlock(device);
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUDA_API int cuEventSynchronize(struct event *event)
{
    int r = event_resolve(event);
    if (r == CUDA_SUCCESS && capture_has_event(event))
        r = capture_refuse_event(event);
    if (r == CUDA_SUCCESS && event->share)
        return event_share_wait(event);
    if (r != CUDA_SUCCESS || event->records == 0)
        return r;
    return pool_synchronized(event->context,
                             stream_wait(event->context, event->stream, event->stream_position));
}

CUDA_API int cuEventElapsedTime(float *ret_ms, struct event *start, struct event *end)
{
    int r = event_resolve(start);
    if (r == CUDA_SUCCESS)
        r = event_resolve(end);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (capture_has_event(start) || capture_has_event(end))
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->records == 0 || end->records == 0 || start->context != end->context ||
        ((start->flags | end->flags) & CUDA_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    struct device *device = &start->context->visible->device;
    device_lock_now(device);
    if (is_reached(start) && is_reached(end)) {
        int64_t ns = (int64_t)(shared_event(end)->time_ns - shared_event(start)->time_ns);
        *ret_ms = (float)((double)ns / 1e6);
    } else {
        r = CUDA_ERROR_NOT_READY;
    }
    device_unlock(device);
    return r;
}

CUDA_API int cuEventElapsedTime_v2(float *ret_ms, struct event *start, struct event *end)
{
    return cuEventElapsedTime(ret_ms, start, end);
}

int event_wait_run(struct stream *stream, struct event *event)
{
    if (event->magic != EVENT_MAGIC)
        return CUDA_SUCCESS; /* held by a graph, and destroyed meanwhile */
    if (event->share)
        return event_share_wait_in(stream, event);
    if (event->records == 0)
        return CUDA_SUCCESS;
    struct emu_entry entry = {
        .operation = EMU_WAIT,
        .target = event->index,
        .value = event->records_before + event->records,
    };
    if (stream->context->visible != event->context->visible)
        return host_work_wait_event(stream, event, entry.value);
    return stream_push(stream, &entry, NULL);
}

CUDA_API int cuStreamWaitEvent(struct stream *handle, struct event *event, unsigned flags)
{
    enum { WAIT_EXTERNAL = 1 };
    const struct operation operation = {.type = CUDA_NODE_WAIT_EVENT, .event = event};
    struct stream *stream;
    int r = event_resolve(event);
    if (r == CUDA_SUCCESS)
        r = stream_resolve_capturing(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags > WAIT_EXTERNAL || (flags == WAIT_EXTERNAL && !stream->capture))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != WAIT_EXTERNAL && (stream->capture || capture_has_event(event)))
        return capture_wait_event(stream, event);
    return operation_submit_to(stream, &operation);
}

static int check_whole_context(const struct context *context, const struct event *event)
{
    int r = event_resolve(event);
    if (r != CUDA_SUCCESS)
        return r;
    if (!context || context->magic != CONTEXT_MAGIC || context->destroyed)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (capture_has_event(event) || atomic_load(&context->process->capture_count) > 0)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return CUDA_SUCCESS;
}

/* Records the event after all work of the context's streams: the legacy stream waits for each
 * stream, and then records. */
CUDA_API int cuCtxRecordEvent(struct context *context, struct event *event)
{
    int r = check_whole_context(context, event);
    if (r != CUDA_SUCCESS)
        return r;
    if (event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    list_for_each (it, &context->streams) {
        struct stream *stream = list_entry(it, struct stream, link);
        struct event *point;
        if ((stream->flags & CUDA_STREAM_NON_BLOCKING) == 0 || r != CUDA_SUCCESS)
            continue; /* the legacy stream waits for blocking streams anyway */
        r = event_make(context, CUDA_EVENT_DISABLE_TIMING, &point);
        if (r == CUDA_SUCCESS)
            r = event_record_run(point, stream);
        if (r == CUDA_SUCCESS)
            r = event_wait_run(&context->legacy, point);
        if (r == CUDA_SUCCESS)
            r = cuEventDestroy_v2(point);
    }
    return r == CUDA_SUCCESS ? event_record_run(event, &context->legacy) : r;
}

CUDA_API int cuCtxWaitEvent(struct context *context, struct event *event)
{
    int r = check_whole_context(context, event);
    if (r == CUDA_SUCCESS)
        r = event_wait_run(&context->legacy, event);
    if (r != CUDA_SUCCESS)
        return r;
    list_for_each (it, &context->streams) {
        struct stream *stream = list_entry(it, struct stream, link);
        if (r == CUDA_SUCCESS)
            r = event_wait_run(stream, event);
    }
    return r;
}
