#include "shim/launch/marks.h"

#include "shim/life/process.h"

enum {
    ATTRIBUTE_64_BIT_STREAM_MEM_OPS = 122,
    HOST_REGISTER_PORTABLE = 1,
    HOST_REGISTER_DEVICEMAP = 2,
    CAPTURE_RELAXED = 2,
    WAIT_UNTIL_EQUAL = 1,
};

/* Relaxes captures around calls of the shim that the driver forbids during a capture. */
static int relax(struct process *p)
{
    CUstreamCaptureMode mode = CAPTURE_RELAXED;
    return p->calls.real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS ? mode : -1;
}

static void restore(struct process *p, int mode)
{
    if (mode >= 0)
        (void)p->calls.real.cuThreadExchangeStreamCaptureMode(&mode);
}

static void *completed_page(struct process *p)
{
    return p->client.status->completed;
}

enum { COMPLETED_BYTES = sizeof(struct status_page) - offsetof(struct status_page, completed) };

/* Chooses the way, under the lock. A context that has ended took the registration with it; the page
 * is then registered again. */
static void choose_way(struct process *p)
{
    struct marks *marks = &p->launch->marks;
    CUdevice device;
    CUdeviceptr address = 0;
    int can_write = 0;
    if (p->calls.real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return;
    if (p->calls.has[CALL_cuStreamWriteValue64_v2])
        (void)p->calls.real.cuDeviceGetAttribute(&can_write, ATTRIBUTE_64_BIT_STREAM_MEM_OPS,
                                                 device);
    if (can_write) {
        (void)p->calls.real.cuMemHostUnregister(completed_page(p));
        if (p->calls.real.cuMemHostRegister_v2(completed_page(p), COMPLETED_BYTES,
                                               HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP) !=
                CUDA_SUCCESS ||
            p->calls.real.cuMemHostGetDevicePointer_v2(&address, completed_page(p), 0) !=
                CUDA_SUCCESS)
            can_write = 0;
    }
    atomic_store(&marks->address, address);
    atomic_store(&marks->way, can_write ? MARKS_BY_DEVICE : MARKS_BY_HOST_FUNCTION);
}

static uint32_t way_of(struct process *p)
{
    struct marks *marks = &p->launch->marks;
    uint32_t way = atomic_load_explicit(&marks->way, memory_order_acquire);
    if (__builtin_expect(way != MARKS_UNKNOWN, 1))
        return way;
    if (!lock_enter(&marks->lock))
        return MARKS_UNKNOWN;
    if (atomic_load(&marks->way) == MARKS_UNKNOWN) {
        int mode = relax(p);
        choose_way(p);
        restore(p, mode);
    }
    lock_release(&marks->lock);
    return atomic_load(&marks->way);
}

/* Runs on a thread of the driver, in order for the marks of one stream. */
static void write_mark(void *argument)
{
    struct marks_pending *pending = argument;
    atomic_store_explicit(pending->word, pending->value, memory_order_release);
    atomic_store_explicit(&pending->is_taken, 0, memory_order_release);
}

static CUresult write_by_host(struct process *p, const struct stream *stream, uint64_t value)
{
    struct marks *marks = &p->launch->marks;
    for (int i = 0; i < MARKS_PENDING_MAX; i++) {
        struct marks_pending *pending = &marks->pending[i];
        if (atomic_exchange(&pending->is_taken, 1))
            continue;
        pending->word = &p->client.status->completed[stream->slot];
        pending->value = value;
        CUresult r = p->calls.real.cuLaunchHostFunc(stream->handle, write_mark, pending);
        if (r != CUDA_SUCCESS)
            atomic_store(&pending->is_taken, 0);
        return r;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult write_value(struct process *p, const struct stream *stream, uint64_t value)
{
    struct marks *marks = &p->launch->marks;
    CUresult r = CUDA_ERROR_STUB_LIBRARY;
    for (int i = 0; i < 2 && r != CUDA_SUCCESS; i++) {
        switch (way_of(p)) {
        case MARKS_BY_DEVICE:
            r = p->calls.real.cuStreamWriteValue64_v2(
                stream->handle,
                atomic_load_explicit(&marks->address, memory_order_relaxed) +
                    sizeof(uint64_t) * stream->slot,
                value, 0);
            if (r != CUDA_SUCCESS)
                atomic_store(&marks->way, MARKS_UNKNOWN);
            break;
        case MARKS_BY_HOST_FUNCTION:
            return write_by_host(p, stream, value);
        default:
            return r;
        }
    }
    return r;
}

bool marks_write(struct process *p, struct stream *stream)
{
    bool is_captured_beside = atomic_load(&p->launch->captures) > 0;
    CUresult r = CUDA_SUCCESS;
    if (!lock_enter(&stream->lock))
        return false; /* the next mark covers this one */
    uint64_t value = atomic_load_explicit(&stream->launched, memory_order_acquire);
    if (!streams_is_there(stream)) {
        atomic_store_explicit(&p->launch->marks.due, 1, memory_order_relaxed);
        /* The context may live on, and then the next mark covers this one. */
        r = CUDA_ERROR_STUB_LIBRARY;
    } else if (value != atomic_load_explicit(&stream->marked, memory_order_relaxed)) {
        int mode = is_captured_beside ? relax(p) : -1;
        r = write_value(p, stream, value);
        restore(p, mode);
        if (r == CUDA_SUCCESS)
            atomic_store_explicit(&stream->marked, value, memory_order_relaxed);
        else
            process_count(p, STATUS_marks_failed, 1);
        atomic_store_explicit(&stream->unmarked, 0, memory_order_relaxed);
    }
    lock_release(&stream->lock);
    return r == CUDA_SUCCESS;
}

/* ---- waits ---- */

bool marks_are_by_device(struct process *p)
{
    return way_of(p) == MARKS_BY_DEVICE;
}

bool marks_await_zero(struct process *p, const struct stream *stream, const _Atomic uint32_t *word)
{
    struct marks *marks = &p->launch->marks;
    size_t place = (size_t)((const char *)word - (const char *)completed_page(p));
    int mode = atomic_load(&p->launch->captures) > 0 ? relax(p) : -1;
    CUresult r = CUDA_ERROR_STUB_LIBRARY;
    for (int i = 0; i < 2 && r != CUDA_SUCCESS && marks_are_by_device(p); i++) {
        r = p->calls.real.cuStreamWaitValue32_v2(
            stream->handle, atomic_load_explicit(&marks->address, memory_order_relaxed) + place, 0,
            WAIT_UNTIL_EQUAL);
        if (r != CUDA_SUCCESS)
            atomic_store(&marks->way, MARKS_UNKNOWN);
    }
    restore(p, mode);
    return r == CUDA_SUCCESS;
}

/* ---- all streams ---- */

/* A default stream can be named only while its context is current, a per-thread default stream only
 * by its thread, and a destroyed stream not at all. */
static bool is_reachable(struct process *p, const struct stream *stream)
{
    CUstream handle = stream->handle;
    return streams_is_there(stream) &&
           ((uintptr_t)handle > (uintptr_t)STREAM_PER_THREAD ||
            streams_key(p, &handle, false) == atomic_load(&stream->key));
}

bool marks_write_if_possible(struct process *p, struct stream *stream)
{
    if (!is_reachable(p, stream))
        return false;
    bool is_captured =
        atomic_load(&p->launch->captures) > 0 && streams_is_capturing(p, stream->handle);
    return !is_captured && marks_write(p, stream);
}

void marks_flush(struct process *p)
{
    struct streams *streams = &p->launch->streams;
    atomic_store_explicit(&p->launch->marks.due, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        struct stream *stream = &streams->slots[i];
        if (atomic_load_explicit(&stream->key, memory_order_acquire) != 0 &&
            atomic_load(&stream->launched) != atomic_load(&stream->marked) &&
            !marks_write_if_possible(p, stream))
            atomic_store_explicit(&p->launch->marks.due, 1, memory_order_relaxed);
    }
}

void marks_reset(struct marks *marks)
{
    lock_init(&marks->lock);
    atomic_store(&marks->way, MARKS_UNKNOWN);
    atomic_store(&marks->due, 0);
    for (int i = 0; i < MARKS_PENDING_MAX; i++)
        atomic_store(&marks->pending[i].is_taken, 0);
}
