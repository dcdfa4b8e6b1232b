#include "emu/device/device.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "emu/abi/cuda_abi.h"
#include "emu/device/client.h"
#include "emu/device/fault.h"

enum {
    REAP_INTERVAL_NS = 10 * 1000 * 1000, /* real time between two searches for dead clients */
    SLEEP_NS_MIN = 50 * 1000, /* a shorter sleep costs more than the delay that it avoids */
    LOCK_YIELDS = 8,          /* most owners hold the lock for some microseconds */
    LOCK_PAUSE_NS_MIN = 20 * 1000,
    LOCK_PAUSE_NS_MAX = 2560 * 1000,
};
enum { STREAM_PRIORITIES = 1 + CUDA_PRIORITY_LEAST - CUDA_PRIORITY_GREATEST };
#define UTILISATION_WINDOW_NS UINT64_C(200000000)

void device_init(struct device *device, const struct mapping *mapping, unsigned index)
{
    *device = (struct device){
        .mapping = mapping,
        .state = mapping_device(mapping, index),
        .index = index,
        .own_slot = DEVICE_NO_SLOT,
    };
}

void device_save(struct device *device, const void *at, size_t bytes)
{
    undo_save(&device->state->undo, device->mapping->file, at, bytes);
}

void device_commit(struct device *device)
{
    undo_commit(&device->state->undo);
}

void device_save_core(struct device *device)
{
    struct emu_device *state = device->state;
    const char *from = (const char *)&state->usage;
    const char *to = (const char *)&state->running[state->running_count];
    device_save(device, from, (size_t)(to - from));
}

/* Polls the robust lock instead of waiting for a wake-up, because the kernel can lose the wake-up:
 * if its sender is killed before waking the next owner, or the woken process before taking the
 * lock, while a third process has the lock by then, all other waiters would sleep for ever. */
static int take_lock(pthread_mutex_t *lock)
{
    struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS_MIN};
    int r = pthread_mutex_trylock(lock);
    for (unsigned tries = 1; r == EBUSY; tries++) {
        if (tries <= LOCK_YIELDS) {
            sched_yield();
        } else {
            nanosleep(&pause, NULL);
            if (pause.tv_nsec < LOCK_PAUSE_NS_MAX)
                pause.tv_nsec *= 2;
        }
        r = pthread_mutex_trylock(lock);
    }
    return r;
}

void device_lock(struct device *device)
{
    struct emu_device *state = device->state;
    int r = take_lock(&state->lock);
    if (r == EOWNERDEAD) {
        undo_roll_back(&state->undo, device->mapping->file);
        r = pthread_mutex_consistent(&state->lock);
    }
    assert(r == 0);
    (void)r;
}

void device_unlock(struct device *device)
{
    pthread_mutex_unlock(&device->state->lock);
}

void device_lock_now(struct device *device)
{
    device_lock(device);
    device_advance(device, mapping_now_ns(device->mapping));
}

static uint64_t stream_tag(unsigned slot, unsigned index)
{
    return (uint64_t)slot * EMU_STREAMS_MAX + index;
}

static struct emu_stream *stream_by_tag(struct emu_device *state, uint64_t tag)
{
    return &state->clients[tag / EMU_STREAMS_MAX].streams[tag % EMU_STREAMS_MAX];
}

/* Returns the oldest operation that has not finished, or NULL. */
static const struct emu_entry *stream_head(const struct emu_stream *stream)
{
    if (stream->head == atomic_load_explicit(&stream->tail, memory_order_acquire))
        return NULL;
    return &stream->ring[stream->head % EMU_RING_ENTRIES];
}

/* Returns whether the entry may run: the legacy stream waits for earlier launches on every blocking
 * stream, and blocking streams wait for earlier launches on the legacy stream. */
static bool is_ordered(const struct emu_client *client, unsigned index,
                       const struct emu_entry *entry)
{
    if (index != 0) {
        if (!client->streams[index].blocking)
            return true;
        const struct emu_entry *legacy = stream_head(&client->streams[0]);
        return !legacy || legacy->order > entry->order;
    }
    for (uint64_t left = client->streams_used & ~UINT64_C(1); left != 0; left &= left - 1) {
        const struct emu_stream *other = &client->streams[__builtin_ctzll(left)];
        const struct emu_entry *head = other->blocking ? stream_head(other) : NULL;
        if (head && head->order < entry->order)
            return false;
    }
    return true;
}

/* A batch: changes that are committed together. A batch ends when the log lacks room for one more
 * step (at most SAVED_BYTES_A_STEP), or for the data that a batch saves first. */
enum {
    SAVED_BYTES_A_STREAM = 64,
    SAVED_BYTES_A_STEP = EMU_RUNNING_MAX * SAVED_BYTES_A_STREAM,
    BATCH_BYTES_MAX = UNDO_BYTES_MAX - SAVED_BYTES_A_STEP,
};
static_assert(sizeof(struct contention_kernel) * EMU_RUNNING_MAX + 4096 < BATCH_BYTES_MAX,
              "the core fits with a step behind it");

static void begin_batch(struct device *device)
{
    device->state->batch++;
    device_save_core(device);
}

static void end_batch(struct device *device)
{
    struct emu_device *state = device->state;
    device_commit(device);
    for (unsigned i = 0; i < state->active_count; i++) {
        const struct emu_active *active = &state->active[i];
        struct emu_stream *stream = &state->clients[active->slot].streams[active->index];
        if (atomic_load_explicit(&stream->free_head, memory_order_relaxed) != stream->head)
            atomic_store_explicit(&stream->free_head, stream->head, memory_order_release);
    }
}

static void make_log_room(struct device *device)
{
    if (undo_used_bytes(&device->state->undo) > BATCH_BYTES_MAX) {
        end_batch(device);
        begin_batch(device);
    }
}

static void save_stream(struct device *device, struct emu_stream *stream)
{
    if (stream->saved_batch == device->state->batch)
        return;
    static_assert(offsetof(struct emu_stream, running) ==
                      offsetof(struct emu_stream, head) + sizeof(stream->head),
                  "saved as one piece");
    device_save(device, &stream->head, sizeof(stream->head) + sizeof(stream->running));
    stream->saved_batch = device->state->batch;
}

static void finish_entry(struct device *device, struct emu_stream *stream)
{
    save_stream(device, stream);
    stream->head++;
    stream->running = 0;
}

static void start_kernel(struct device *device, unsigned slot, unsigned index,
                         const struct emu_entry *entry)
{
    struct emu_device *state = device->state;
    const struct emu_client *client = &state->clients[slot];
    struct emu_stream *stream = &state->clients[slot].streams[index];
    bool is_mps = client->mps_generation > 0;
    uint64_t block_ns = fault_stretch_ns(state, entry->block_ns);
    struct contention_launch launch = {
        .tag = stream_tag(slot, index),
        .duration_ns = fault_stretch_ns(state, entry->duration_ns),
        .block_ns = block_ns < UINT32_MAX ? (uint32_t)block_ns : UINT32_MAX,
        .party = is_mps ? EMU_CLIENTS_MAX + client->mps_generation : slot,
        .client = slot,
        .sm_permille = entry->sm_permille,
        .dram_permille = entry->dram_permille,
        .share_permille = CONTENTION_FULL_PERMILLE,
        .priority = (uint16_t)(STREAM_PRIORITIES + stream->priority),
    };
    if (is_mps) {
        launch.priority = (uint16_t)(launch.priority + client->priority * STREAM_PRIORITIES);
        launch.share_permille = (uint16_t)client->share_permille;
    }
    save_stream(device, stream);
    contention_kernel_init(&state->running[state->running_count], &launch);
    state->running_count++;
    stream->running = 1;
}

/* Starts the entry at the head of a stream, or completes it if it takes no time. Returns false if
 * it must wait. */
static bool start_entry(struct device *device, unsigned slot, unsigned index,
                        const struct emu_entry *entry)
{
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[slot];
    struct emu_event *event = &client->events[entry->target % EMU_EVENTS_MAX];
    switch ((enum emu_operation)entry->operation) {
    case EMU_RUN:
        start_kernel(device, slot, index, entry);
        return true;
    case EMU_RECORD:
        device_save(device, event, sizeof(*event));
        if (event->records_done < entry->value)
            event->records_done = entry->value;
        event->time_ns = state->usage.time_ns;
        break;
    case EMU_WAIT:
        if (event->records_done < entry->value)
            return false;
        break;
    case EMU_FREE:
        if (client->checkpoint_bytes > 0)
            return false; /* a checkpoint has moved its memory (checkpoint.c) */
        device_save(device, &client->memory_bytes, sizeof(client->memory_bytes));
        client->memory_bytes -= entry->value;
        state->memory_used_bytes -= entry->value;
        break;
    case EMU_FAULT:
        finish_entry(device, &client->streams[index]);
        end_batch(device);
        fault_strike(device, slot, CUDA_ERROR_ILLEGAL_ADDRESS, XID_MMU_FAULT);
        begin_batch(device);
        return false;
    }
    finish_entry(device, &client->streams[index]);
    return true;
}

static bool has_error(const struct emu_client *client)
{
    return atomic_load_explicit(&client->sticky_error, memory_order_relaxed) != 0;
}

/* Finds the streams that have operations. Operations added from now on are left to the next
 * advance: they were added after the time that this one advances to. */
static void find_active(struct emu_device *state)
{
    unsigned count = 0;
    for (unsigned slot = 0; slot < state->clients_high; slot++) {
        const struct emu_client *client = &state->clients[slot];
        if (!client->live || has_error(client))
            continue;
        for (uint64_t left = client->streams_used; left != 0; left &= left - 1) {
            unsigned index = (unsigned)__builtin_ctzll(left);
            const struct emu_stream *stream = &client->streams[index];
            uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_acquire);
            if (stream->head != tail)
                state->active[count++] =
                    (struct emu_active){.tail = tail, .slot = slot, .index = index};
        }
    }
    state->active_count = count;
}

/* Starts the operations of one stream that can start now. Sets *progress if another stream may
 * depend on them, and lowers *arrival_ns to the time of an entry that has not arrived yet. */
static void admit_stream(struct device *device, const struct emu_active *active, bool *progress,
                         uint64_t *arrival_ns)
{
    struct emu_client *client = &device->state->clients[active->slot];
    struct emu_stream *stream = &client->streams[active->index];
    while (!stream->running && stream->head != active->tail && !has_error(client)) {
        const struct emu_entry *entry = &stream->ring[stream->head % EMU_RING_ENTRIES];
        if (entry->enqueued_ns > device->state->usage.time_ns) {
            if (entry->enqueued_ns < *arrival_ns)
                *arrival_ns = entry->enqueued_ns;
            break;
        }
        make_log_room(device);
        if (!is_ordered(client, active->index, entry) ||
            !start_entry(device, active->slot, active->index, entry))
            break;
        *progress |= !stream->running;
    }
}

/* Starts all operations that can start now; an operation of one stream may unblock another. Returns
 * the time of the next entry that has not arrived yet. */
static uint64_t admit_all(struct device *device)
{
    struct emu_device *state = device->state;
    uint64_t arrival_ns;
    bool progress;
    do {
        progress = false;
        arrival_ns = CONTENTION_NEVER;
        for (unsigned i = 0; i < state->active_count; i++)
            admit_stream(device, &state->active[i], &progress, &arrival_ns);
    } while (progress);
    return arrival_ns;
}

static void add_usage(struct emu_device *state, uint64_t ns)
{
    struct emu_usage *usage = &state->usage;
    usage->time_ns += ns;
    if (state->running_count > 0)
        usage->busy_ns += ns;
    usage->sm_permille_ns += state->contention.sm_used * ns;
    usage->dram_permille_ns += state->contention.dram_used * ns;
    if (usage->time_ns - state->marks[1].time_ns >= UTILISATION_WINDOW_NS) {
        state->marks[0] = state->marks[1];
        state->marks[1] = *usage;
    }
}

/* Counts the bytes that a finished copy has moved over the bus. */
static void count_traffic(struct emu_usage *usage, const struct emu_entry *entry)
{
    if (entry->target == EMU_TO_DEVICE)
        usage->to_device_bytes += entry->value;
    else
        usage->from_device_bytes += entry->value;
}

static void take_out_finished(struct device *device)
{
    struct emu_device *state = device->state;
    unsigned kept = 0;
    for (unsigned i = 0; i < state->running_count; i++) {
        if (state->running[i].work > 0) {
            if (kept++ != i)
                state->running[kept - 1] = state->running[i];
            continue;
        }
        struct emu_stream *stream = stream_by_tag(state, state->running[i].tag);
        count_traffic(&state->usage, &stream->ring[stream->head % EMU_RING_ENTRIES]);
        finish_entry(device, stream);
    }
    state->running_count = kept;
}

/* Advances to the next change, at most to `limit_ns`. */
static void step(struct device *device, uint64_t limit_ns)
{
    struct emu_device *state = device->state;
    make_log_room(device);
    uint64_t ns = contention_plan(&state->contention, state->running, state->running_count);
    uint64_t left_ns = limit_ns - state->usage.time_ns;
    bool is_whole = ns <= left_ns;
    if (!is_whole)
        ns = left_ns;
    contention_elapse(&state->contention, state->running, state->running_count, ns);
    add_usage(state, ns);
    if (is_whole)
        take_out_finished(device);
}

static void reap_if_due(struct device *device)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t mono_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (mono_ns - device->state->reaped_mono_ns < REAP_INTERVAL_NS)
        return;
    device->state->reaped_mono_ns = mono_ns; /* one word, valid wherever a kill interrupts */
    client_reap(device);
}

void device_advance(struct device *device, uint64_t target_ns)
{
    struct emu_device *state = device->state;
    reap_if_due(device);
    find_active(state);
    begin_batch(device);
    for (;;) {
        uint64_t arrival_ns = admit_all(device);
        if (state->usage.time_ns >= target_ns)
            break;
        step(device, arrival_ns < target_ns ? arrival_ns : target_ns);
    }
    end_batch(device);
}

uint64_t device_stream_bound_ns(struct device *device, unsigned slot, unsigned index,
                                uint64_t position)
{
    struct emu_device *state = device->state;
    const struct emu_stream *stream = &state->clients[slot].streams[index];
    uint64_t tail = atomic_load_explicit(&stream->tail, memory_order_acquire);
    uint64_t bound_ns = 0;
    if (position > tail)
        position = tail;
    for (uint64_t at = stream->head; at < position; at++) {
        const struct emu_entry *entry = &stream->ring[at % EMU_RING_ENTRIES];
        if (entry->operation == EMU_RUN && !(at == stream->head && stream->running))
            bound_ns += entry->duration_ns;
    }
    if (stream->head < position && stream->running) {
        for (unsigned i = 0; i < state->running_count; i++) {
            if (state->running[i].tag == stream_tag(slot, index))
                bound_ns += state->running[i].work >> CONTENTION_RATE_BITS;
        }
    }
    return stream->head < position ? bound_ns + 1 : 0;
}

void device_sleep(struct device *device, uint64_t until_ns, uint32_t alarms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    uint64_t soonest_ns = (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec + SLEEP_NS_MIN;
    uint64_t real_ns = mapping_real_ns(device->mapping, until_ns);
    if (real_ns < soonest_ns)
        real_ns = soonest_ns;
    mapping_sleep(device->mapping, alarms, real_ns);
}
