/* Events: points in a stream, and the emulated time at which the device reached them. */
#include <stdlib.h>
#include <string.h>

#include "emu/driver.h"

static int event_resolve(struct event *event)
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

/* Under the device's lock. */
static bool is_reached(const struct event *event)
{
    return event->records == 0 ||
           shared_event(event)->records_done >= event->records_before + event->records;
}

/* Under process.lock: a number that no event of any context on the device has, and whose last
 * record was reached: one that is still to come would count for the new event. */
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
        list_append(&context->events, &event->link);
        *ret_event = event;
    } else {
        free(event);
    }
    pthread_mutex_unlock(&context->process->lock);
    return r;
}

CUDA_API int cuEventCreate(struct event **ret_event, unsigned flags);
CUDA_API int cuEventCreate(struct event **ret_event, unsigned flags)
{
    struct context *context;
    int r = context_current(&context);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_event || (flags & ~(unsigned)CUDA_EVENT_FLAGS_ALL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_EVENT_INTERPROCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    return event_make(context, flags, ret_event);
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

static void free_event(struct event *event)
{
    list_remove(&event->link);
    event->magic = DEAD_MAGIC;
    free(event);
}

void event_discard(struct event *event)
{
    free_event(event);
}

void event_discard_all(struct context *context)
{
    list_for_each_safe (it, &context->events)
        free_event(list_entry(it, struct event, link));
}

CUDA_API int cuEventDestroy_v2(struct event *event);
CUDA_API int cuEventDestroy_v2(struct event *event)
{
    int r = event_resolve(event);
    if (r != CUDA_SUCCESS)
        return r;
    struct process *process = event->context->process;
    pthread_mutex_lock(&process->lock);
    free_event(event);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

CUDA_API int cuEventDestroy(struct event *event);
CUDA_API int cuEventDestroy(struct event *event)
{
    return cuEventDestroy_v2(event);
}

CUDA_API int cuEventRecord(struct event *event, struct stream *handle);
CUDA_API int cuEventRecord(struct event *event, struct stream *handle)
{
    struct stream *stream;
    int r = event_resolve(event);
    if (r == CUDA_SUCCESS)
        r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (stream->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    struct process *process = event->context->process;
    pthread_mutex_lock(&process->lock);
    struct emu_entry entry = {
        .operation = EMU_RECORD,
        .target = event->index,
        .value = event->records_before + event->records + 1,
    };
    uint64_t position;
    r = stream_push(stream, &entry, &position);
    if (r == CUDA_SUCCESS) {
        event->records++;
        event->stream = stream->index;
        event->stream_position = position;
        event->context->visible->event_records[event->index] = entry.value;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuEventRecordWithFlags(struct event *event, struct stream *handle, unsigned flags);
CUDA_API int cuEventRecordWithFlags(struct event *event, struct stream *handle, unsigned flags)
{
    if (flags != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuEventRecord(event, handle);
}

CUDA_API int cuEventQuery(struct event *event);
CUDA_API int cuEventQuery(struct event *event)
{
    int r = event_resolve(event);
    if (r != CUDA_SUCCESS)
        return r;
    struct device *device = &event->context->visible->device;
    device_lock_now(device);
    bool reached = is_reached(event);
    device_unlock(device);
    return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUDA_API int cuEventSynchronize(struct event *event);
CUDA_API int cuEventSynchronize(struct event *event)
{
    int r = event_resolve(event);
    if (r != CUDA_SUCCESS || event->records == 0)
        return r;
    return stream_wait(event->context, event->stream, event->stream_position);
}

CUDA_API int cuEventElapsedTime(float *ret_ms, struct event *start, struct event *end);
CUDA_API int cuEventElapsedTime(float *ret_ms, struct event *start, struct event *end)
{
    int r = event_resolve(start);
    if (r == CUDA_SUCCESS)
        r = event_resolve(end);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_ms)
        return CUDA_ERROR_INVALID_VALUE;
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

CUDA_API int cuEventElapsedTime_v2(float *ret_ms, struct event *start, struct event *end);
CUDA_API int cuEventElapsedTime_v2(float *ret_ms, struct event *start, struct event *end)
{
    return cuEventElapsedTime(ret_ms, start, end);
}

CUDA_API int cuStreamWaitEvent(struct stream *handle, struct event *event, unsigned flags);
CUDA_API int cuStreamWaitEvent(struct stream *handle, struct event *event, unsigned flags)
{
    struct stream *stream;
    int r = event_resolve(event);
    if (r == CUDA_SUCCESS)
        r = stream_resolve(handle, &stream);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags != 0 || stream->context->visible != event->context->visible)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (event->records == 0)
        return CUDA_SUCCESS;
    struct emu_entry entry = {
        .operation = EMU_WAIT,
        .target = event->index,
        .value = event->records_before + event->records,
    };
    return stream_push(stream, &entry, NULL);
}
