/*
 * Work of a stream on the host: functions, and words of memory that the stream writes or waits for.
 * Only this process can do that work, so a thread of it does. Each piece of work is queued as an
 * operation without duration, which tells the thread that the work is due, followed by a wait for
 * an event (the stream's gate), which the thread records when it has done the work.
 */
#include <stdlib.h>
#include <time.h>

#include "emu/graph/capture.h"
#include "emu/memory/memory.h"

enum {
    LOOK_AGAIN_NS = 50 * 1000, /* shortest pause */
    /* Longest pause: work of other clients may end sooner than predicted. */
    LOOK_AGAIN_NS_MAX = 500 * 1000,
    WAIT_GEQ = 0,
    WAIT_EQ = 1,
    WAIT_AND = 2,
    WAIT_NOR = 3,
    WRITE_NO_BARRIER = 1,
};

enum work_kind { WORK_FUNCTION, WORK_CALLBACK, WORK_WRITE, WORK_WAIT, WORK_WAIT_EVENT };

struct host_work {
    struct list link; /* link in host_queue.works */
    enum work_kind kind;
    struct visible_device *visible;
    unsigned stream;
    uint64_t position; /* entries of the stream that must be done first; 0: not queued yet */
    /* Index of the gate event; gate_value is the record number that lets the stream go on. */
    unsigned gate;
    uint64_t gate_value;
    void (*function)(void *);
    void (*callback)(struct stream *, int, void *); /* for WORK_CALLBACK */
    struct stream *handle;
    void *argument;
    struct event *event; /* a reference that ends with the work, or NULL */
    uint64_t record;     /* for WORK_WAIT_EVENT */
    void *word;          /* `width` bytes long */
    unsigned width;
    unsigned condition; /* for WORK_WAIT */
    uint64_t value;
};

static uint64_t load_word(const struct host_work *work)
{
    return work->width == sizeof(uint32_t)
               ? __atomic_load_n((uint32_t *)work->word, __ATOMIC_ACQUIRE)
               : __atomic_load_n((uint64_t *)work->word, __ATOMIC_ACQUIRE);
}

static bool is_recorded(const struct event *event, uint64_t record)
{
    struct device *device = &event->context->visible->device;
    device_lock_now(device);
    bool is_gone = device->own_slot == DEVICE_NO_SLOT;
    bool is_done =
        is_gone || context_client(event->context)->events[event->index].records_done >= record;
    device_unlock(device);
    return is_done;
}

static bool is_satisfied(const struct host_work *work)
{
    if (work->kind == WORK_WAIT_EVENT)
        return is_recorded(work->event, work->record);
    if (work->kind != WORK_WAIT)
        return true;
    uint64_t now = load_word(work), mask = work->width == 4 ? UINT32_MAX : UINT64_MAX;
    uint64_t difference = (now - work->value) & mask;
    switch (work->condition) {
    case WAIT_GEQ: /* as a cyclic comparison */
        return difference <= mask / 2;
    case WAIT_EQ:
        return difference == 0;
    case WAIT_AND:
        return (now & work->value) != 0;
    default:
        return (~(now | work->value) & mask) != 0;
    }
}

static void perform(const struct host_work *work)
{
    if (work->kind == WORK_FUNCTION)
        work->function(work->argument);
    else if (work->kind == WORK_CALLBACK)
        work->callback(work->handle, CUDA_SUCCESS, work->argument);
    else if (work->kind == WORK_WRITE && work->width == sizeof(uint32_t))
        __atomic_store_n((uint32_t *)work->word, (uint32_t)work->value, __ATOMIC_RELEASE);
    else if (work->kind == WORK_WRITE)
        __atomic_store_n((uint64_t *)work->word, work->value, __ATOMIC_RELEASE);
}

static void open_gate(const struct host_work *work)
{
    struct device *device = &work->visible->device;
    device_lock_now(device);
    if (device->own_slot != DEVICE_NO_SLOT) {
        struct emu_event *event = &device->state->clients[device->own_slot].events[work->gate];
        device_save(device, event, sizeof(*event));
        event->records_done = work->gate_value;
        event->time_ns = device->state->usage.time_ns;
        device_commit(device);
    }
    device_unlock(device);
}

/* Returns 0 if the work is due, otherwise a time for which it cannot be due. */
static uint64_t time_to_due_ns(const struct host_work *work)
{
    struct device *device = &work->visible->device;
    uint64_t ns = LOOK_AGAIN_NS_MAX;
    device_lock_now(device);
    if (device->own_slot != DEVICE_NO_SLOT)
        ns = device_stream_bound_ns(device, (unsigned)device->own_slot, work->stream,
                                    work->position);
    device_unlock(device);
    if (ns > 0)
        ns = mapping_real_ns(device->mapping, ns) - mapping_real_ns(device->mapping, 0);
    return ns;
}

/* Returns work that can be done now, or NULL; *ret_ns is then the time until the next check. Work
 * of one stream becomes due in order, since each piece has passed the gate of the one before. Call
 * under queue->lock. */
static struct host_work *find_due(struct host_queue *queue, uint64_t *ret_ns)
{
    *ret_ns = LOOK_AGAIN_NS_MAX;
    list_for_each (it, &queue->works) {
        struct host_work *work = list_entry(it, struct host_work, link);
        uint64_t ns = work->position > 0 ? time_to_due_ns(work) : LOOK_AGAIN_NS;
        if (ns == 0 && is_satisfied(work))
            return work;
        if (ns < LOOK_AGAIN_NS)
            ns = LOOK_AGAIN_NS;
        if (ns < *ret_ns)
            *ret_ns = ns;
    }
    return NULL;
}

static void *serve(void *argument)
{
    struct host_queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        uint64_t ns;
        while (list_empty(&queue->works))
            pthread_cond_wait(&queue->changed, &queue->lock);
        struct host_work *work = find_due(queue, &ns);
        if (work)
            list_remove(&work->link);
        pthread_mutex_unlock(&queue->lock);
        if (work) {
            perform(work);
            open_gate(work);
            if (work->event)
                event_release(work->event);
            free(work);
        } else {
            nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
        }
        pthread_mutex_lock(&queue->lock);
    }
    return NULL;
}

/* Call under queue->lock. */
static int start_thread(struct host_queue *queue)
{
    pthread_t thread;
    if (queue->is_served)
        return CUDA_SUCCESS;
    if (pthread_create(&thread, NULL, serve, queue) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_detach(thread);
    queue->is_served = true;
    return CUDA_SUCCESS;
}

/* Adds the work without a position: it is not due until it has one. */
static int enter(struct host_queue *queue, const struct host_work *what,
                 struct host_work **ret_work)
{
    struct host_work *work = malloc(sizeof(*work));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *work = *what;
    pthread_mutex_lock(&queue->lock);
    int r = start_thread(queue);
    if (r == CUDA_SUCCESS) {
        list_append(&queue->works, &work->link);
        pthread_cond_signal(&queue->changed);
        *ret_work = work;
    } else {
        free(work);
    }
    pthread_mutex_unlock(&queue->lock);
    return r;
}

static void set_position(struct host_queue *queue, struct host_work *work, uint64_t position)
{
    pthread_mutex_lock(&queue->lock);
    work->position = position;
    pthread_mutex_unlock(&queue->lock);
}

static void leave(struct host_queue *queue, struct host_work *work)
{
    pthread_mutex_lock(&queue->lock);
    list_remove(&work->link);
    pthread_mutex_unlock(&queue->lock);
    free(work);
}

/* Keeps gate values in the order of the stream. Call under stream->host_lock. */
static int queue_work(struct stream *stream, struct host_work *what)
{
    struct context *context = stream->context;
    struct host_queue *queue = &context->process->host_queue;
    int r = stream->gate ? CUDA_SUCCESS : event_make(context, 0, &stream->gate);
    if (r != CUDA_SUCCESS)
        return r;
    what->visible = context->visible;
    what->stream = stream->index;
    what->gate = stream->gate->index;
    what->gate_value = event_reserve_record(stream->gate);
    struct host_work *work;
    r = enter(queue, what, &work);
    if (r != CUDA_SUCCESS)
        return r;
    const struct emu_entry mark = {.operation = EMU_FREE};
    const struct emu_entry wait = {
        .operation = EMU_WAIT, .target = what->gate, .value = what->gate_value};
    uint64_t position = 0;
    r = stream_push(stream, &mark, &position);
    if (r != CUDA_SUCCESS) {
        leave(queue, work);
        return r;
    }
    set_position(queue, work, position);
    return stream_push(stream, &wait, NULL);
}

static int submit(struct stream *stream, struct host_work *what)
{
    pthread_mutex_lock(&stream->host_lock);
    int r = queue_work(stream, what);
    pthread_mutex_unlock(&stream->host_lock);
    return r;
}

int host_work_call(struct stream *stream, const CUDA_HOST_NODE_PARAMS *host)
{
    struct host_work work = {
        .kind = WORK_FUNCTION, .function = host->fn, .argument = host->userData};
    return submit(stream, &work);
}

CUDA_API int cuLaunchHostFunc(struct stream *handle, void (*function)(void *), void *argument)
{
    const struct operation operation = {.type = CUDA_NODE_HOST, .host = {function, argument}};
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    if (r == CUDA_SUCCESS && !function)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? operation_submit_to(stream, &operation) : r;
}

/* The older form of a host function, which also gets the stream and its state. */
CUDA_API int cuStreamAddCallback(struct stream *handle,
                                 void (*callback)(struct stream *, int, void *), void *argument,
                                 unsigned flags)
{
    struct stream *stream;
    int r = stream_resolve(handle, &stream);
    if (r == CUDA_SUCCESS && (!callback || flags != 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    struct host_work work = {
        .kind = WORK_CALLBACK, .callback = callback, .handle = handle, .argument = argument};
    return submit(stream, &work);
}

static int submit_with_event(struct stream *stream, struct host_work *work)
{
    event_retain(work->event);
    int r = submit(stream, work);
    if (r != CUDA_SUCCESS)
        event_release(work->event);
    return r;
}

int host_work_wait_event(struct stream *stream, struct event *event, uint64_t record)
{
    struct host_work work = {.kind = WORK_WAIT_EVENT, .event = event, .record = record};
    return submit_with_event(stream, &work);
}

int host_work_flag(struct stream *stream, struct event *event, _Atomic uint64_t *word,
                   uint64_t value, bool wait)
{
    struct host_work work = {
        .kind = wait ? WORK_WAIT : WORK_WRITE,
        .event = event,
        .word = (void *)word,
        .width = sizeof(*word),
        .condition = WAIT_GEQ,
        .value = value,
    };
    return submit_with_event(stream, &work);
}

static unsigned width_of(const CUstreamBatchMemOpParams *word)
{
    bool is_short = word->operation == CUDA_WORD_WAIT_32 || word->operation == CUDA_WORD_WRITE_32;
    return is_short ? sizeof(uint32_t) : sizeof(uint64_t);
}

static bool is_wait(const CUstreamBatchMemOpParams *word)
{
    return word->operation == CUDA_WORD_WAIT_32 || word->operation == CUDA_WORD_WAIT_64;
}

/* Finds a word of device memory, or of host memory that the driver knows. */
static int find_word(const CUstreamBatchMemOpParams *word, unsigned char **ret_at)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (word->address == 0 || word->address % width_of(word) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    r = copy_contents(process, word->address, width_of(word), ret_at);
    pthread_mutex_unlock(&process->lock);
    return r;
}

int host_work_check_word(const CUstreamBatchMemOpParams *word)
{
    unsigned char *at;
    if (word->operation != CUDA_WORD_WAIT_32 && word->operation != CUDA_WORD_WAIT_64 &&
        word->operation != CUDA_WORD_WRITE_32 && word->operation != CUDA_WORD_WRITE_64)
        return CUDA_ERROR_NOT_SUPPORTED; /* barriers and flushes */
    if (is_wait(word) && word->flags > WAIT_NOR)
        return CUDA_ERROR_NOT_SUPPORTED; /* a flush of writes by other devices */
    if (!is_wait(word) && (word->flags & ~(unsigned)WRITE_NO_BARRIER) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return find_word(word, &at);
}

int host_work_word(struct stream *stream, const CUstreamBatchMemOpParams *word)
{
    unsigned char *at;
    int r = find_word(word, &at);
    if (r != CUDA_SUCCESS)
        return r;
    struct host_work work = {
        .kind = is_wait(word) ? WORK_WAIT : WORK_WRITE,
        .width = width_of(word),
        .condition = is_wait(word) ? word->flags : 0,
        .value = word->value,
        .word = at,
    };
    return submit(stream, &work);
}

static int submit_words(struct stream *handle, CUstreamBatchMemOpParams *words, unsigned count)
{
    const struct operation operation = {
        .type = CUDA_NODE_WORDS,
        .words = {.list = words, .count = count},
    };
    struct stream *stream;
    int r = stream_resolve_capturing(handle, &stream);
    for (unsigned i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = host_work_check_word(&words[i]);
    return r == CUDA_SUCCESS ? operation_submit_to(stream, &operation) : r;
}

CUDA_API int cuStreamBatchMemOp_v2(struct stream *handle, unsigned count,
                                   CUstreamBatchMemOpParams *words, unsigned flags)
{
    if (count == 0 || count > OPERATION_WORDS_MAX || !words || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return submit_words(handle, words, count);
}

#define WORD(name, kind, type_)                                                                    \
    CUDA_API int name##_v2(struct stream *s, uint64_t at, type_ value, unsigned flags)             \
    {                                                                                              \
        CUstreamBatchMemOpParams word = {                                                          \
            .operation = (kind), .address = at, .value = value, .flags = flags};                   \
        return submit_words(s, &word, 1);                                                          \
    }
WORD(cuStreamWriteValue32, CUDA_WORD_WRITE_32, uint32_t)
WORD(cuStreamWriteValue64, CUDA_WORD_WRITE_64, uint64_t)
WORD(cuStreamWaitValue32, CUDA_WORD_WAIT_32, uint32_t)
WORD(cuStreamWaitValue64, CUDA_WORD_WAIT_64, uint64_t)
