#include "shim/launch/streams.h"

#include "shim/life/process.h"

static bool is_default(CUstream handle)
{
    return (uintptr_t)handle <= (uintptr_t)STREAM_PER_THREAD;
}

/* The key of a default stream is its context, plus its thread for a per-thread default stream.
 * Contexts and other streams are addresses, so a bit marks the key of a default stream. */
uint64_t streams_key(struct process *p, CUstream *handle, bool is_per_thread)
{
    CUcontext context = NULL;
    if (!is_default(*handle))
        return (uint64_t)(uintptr_t)*handle;
    if (p->calls.real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return 0;
    uint64_t key = (uint64_t)(uintptr_t)context | 1;
    if (*handle != STREAM_PER_THREAD && !(is_per_thread && *handle == NULL))
        return key;
    *handle = STREAM_PER_THREAD;
    return (key ^ sys_thread_word() << 8) | 2;
}

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/* Returns a slot without a stream and without outstanding work, under the lock. */
static struct stream *find_free(struct process *p)
{
    const struct status_page *status = p->client.status;
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        if (load(&p->launch->streams.slots[i].key) == 0 &&
            load(&status->started[i]) == load(&status->completed[i]))
            return &p->launch->streams.slots[i];
    }
    return NULL;
}

static int device_of(struct process *p, CUcontext context)
{
    CUcontext current = NULL, popped;
    if (!context || (p->calls.real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && context == current))
        return devices_current(p);
    if (p->calls.real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return DEVICES_UNKNOWN;
    int device = devices_current(p);
    (void)p->calls.real.cuCtxPopCurrent_v2(&popped);
    return device;
}

static CUcontext context_of(struct process *p, CUstream handle)
{
    CUcontext context = NULL;
    CUresult r = is_default(handle) ? p->calls.real.cuCtxGetCurrent(&context)
                                    : p->calls.real.cuStreamGetCtx(handle, &context);
    return r == CUDA_SUCCESS ? context : NULL;
}

static void fill(struct process *p, struct stream *stream, CUstream handle)
{
    struct status_page *status = p->client.status;
    uint32_t slot = (uint32_t)(stream - p->launch->streams.slots);
    uint64_t started = load(&status->started[slot]);
    stream->handle = handle;
    stream->context = context_of(p, handle);
    stream->device = device_of(p, stream->context);
    stream->slot = slot;
    atomic_store(&stream->launched, started);
    atomic_store(&stream->marked, started);
    atomic_store(&stream->collective, 0);
    atomic_store(&stream->given_up, 0);
    atomic_store(&stream->given_up_at, 0);
    atomic_store(&stream->unguarded_ns, 0);
    atomic_store(&stream->unmarked, 0);
    atomic_store(&stream->is_capturing, 0);
    atomic_fetch_or(&status->open_streams, UINT64_C(1) << slot);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
        if (i == stream->device)
            atomic_fetch_or(&p->launch->devices[i].slots, UINT64_C(1) << slot);
        else
            atomic_fetch_and(&p->launch->devices[i].slots, ~(UINT64_C(1) << slot));
    }
}

static struct stream *look_up(struct streams *streams, uint64_t key)
{
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        if (load(&streams->slots[i].key) == key) {
            atomic_store_explicit(&streams->cache[streams_place(key)], (uint8_t)i,
                                  memory_order_relaxed);
            return &streams->slots[i];
        }
    }
    return NULL;
}

struct stream *streams_find_slowly(struct process *p, uint64_t key, CUstream handle)
{
    struct streams *streams = &p->launch->streams;
    if (key == 0)
        return NULL;
    struct stream *stream = look_up(streams, key);
    if (stream)
        return stream;
    bool is_fresh = false;
    if (!lock_enter(&streams->lock))
        return NULL;
    stream = look_up(streams, key);
    if (!stream && (stream = find_free(p))) {
        fill(p, stream, handle);
        /* Also the current context, since the stream's context may be unknown, or may be a green
         * context that only another thread can use. */
        busy_note(p);
        if (stream->context)
            busy_add(&p->busy, stream->context);
        is_fresh = load(&stream->launched) == 0;
        atomic_store_explicit(&stream->key, key, memory_order_release);
    }
    lock_release(&streams->lock);
    /* The driver may have opened a file for the stream. Once per slot is enough for programs that
     * make a stream for every step. */
    if (is_fresh)
        client_show_files(&p->client);
    return stream;
}

void streams_forget(struct process *p, CUstream handle)
{
    struct streams *streams = &p->launch->streams;
    if (is_default(handle))
        return;
    struct stream *stream = look_up(streams, (uint64_t)(uintptr_t)handle);
    if (!stream)
        return;
    streams_end_capture(p, stream);
    (void)marks_write(p, stream);
    if (!lock_enter(&streams->lock))
        return; /* the handle may come again for the same stream */
    atomic_store(&stream->key, 0);
    lock_release(&streams->lock);
}

/* Takes the stream's lock, so that no mark is on its way to the driver afterwards. In a signal
 * handler that interrupted a mark, the interrupted thread does not go on before the handler
 * returns. */
static void begin_end(struct stream *stream)
{
    bool is_locked = lock_enter(&stream->lock);
    stream->ending_key = load(&stream->key);
    atomic_store(&stream->key, STREAMS_ENDING);
    if (is_locked)
        lock_release(&stream->lock);
}

void streams_begin_end(struct process *p, CUcontext context)
{
    struct streams *streams = &p->launch->streams;
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        struct stream *stream = &streams->slots[i];
        if (streams_is_there(stream) && stream->context == context)
            (void)marks_write_if_possible(p, stream);
    }
    if (!lock_enter(&streams->lock))
        return;
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        struct stream *stream = &streams->slots[i];
        if (streams_is_there(stream) && stream->context == context)
            begin_end(stream);
    }
    lock_release(&streams->lock);
}

/* Marks a stream as ended, under the lock: the device writes no more marks there, also for streams
 * destroyed earlier. */
static void settle(struct process *p, struct stream *stream)
{
    struct status_page *status = p->client.status;
    streams_end_capture(p, stream);
    stream->context = NULL;
    atomic_store(&status->completed[stream->slot], load(&status->started[stream->slot]));
    atomic_store_explicit(&stream->key, 0, memory_order_release);
}

void streams_finish_end(struct process *p, CUcontext context, bool has_ended)
{
    struct streams *streams = &p->launch->streams;
    if (!lock_enter(&streams->lock))
        return;
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        struct stream *stream = &streams->slots[i];
        if (streams_is_there(stream) || stream->context != context)
            continue;
        if (has_ended)
            settle(p, stream);
        else if (load(&stream->key) == STREAMS_ENDING)
            /* A thread that launched meanwhile has made another record, which is kept. */
            atomic_store_explicit(&stream->key,
                                  look_up(streams, stream->ending_key) ? 0 : stream->ending_key,
                                  memory_order_release);
    }
    lock_release(&streams->lock);
}

bool streams_is_capturing(struct process *p, CUstream handle)
{
    CUstreamCaptureStatus status = 0;
    return p->calls.real.cuStreamIsCapturing(handle, &status) != CUDA_SUCCESS || status != 0;
}

bool streams_begin_capture(struct process *p, struct stream *stream)
{
    if (atomic_exchange(&stream->is_capturing, 1))
        return false;
    atomic_fetch_add(&p->launch->captures, 1);
    return true;
}

void streams_end_capture(struct process *p, struct stream *stream)
{
    if (atomic_exchange(&stream->is_capturing, 0))
        atomic_fetch_sub(&p->launch->captures, 1);
}

void streams_reset(struct streams *streams)
{
    lock_init(&streams->lock);
    atomic_store(&streams->sole_key, 0);
    for (uint32_t i = 0; i < STREAMS_MAX; i++) {
        atomic_store(&streams->slots[i].key, 0);
        lock_init(&streams->slots[i].lock);
    }
}
