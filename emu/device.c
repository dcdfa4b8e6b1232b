#include "emu/device.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "emu/client.h"
#include "emu/cuda_abi.h"
#include "emu/fault.h"

enum {
    REAP_INTERVAL_NS = 10 * 1000 * 1000, /* real time between two looks for dead clients */
    SLEEP_NS_MIN = 50 * 1000, /* a shorter sleep costs more than the lateness that it saves */
};
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

void device_lock(struct device *device)
{
    struct emu_device *state = device->state;
    int r = pthread_mutex_lock(&state->lock);
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

/* The oldest operation that has not finished, or NULL. */
static const struct emu_entry *stream_head(const struct emu_stream *stream)
{
    if (stream->head == atomic_load_explicit(&stream->tail, memory_order_acquire))
        return NULL;
    return &stream->ring[stream->head % EMU_RING_ENTRIES];
}

/* The legacy stream waits for what was launched before on every blocking stream, and they for what
 * was launched before on it. */
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

static void finish_entry(struct device *device, struct emu_stream *stream)
{
    device_save(device, &stream->head, sizeof(stream->head));
    device_save(device, &stream->running, sizeof(stream->running));
    stream->head++;
    stream->running = 0;
}

/* Starts the entry at the head of a stream, or does it if it takes no time. False: it must wait. */
static bool start_entry(struct device *device, unsigned slot, unsigned index,
                        const struct emu_entry *entry)
{
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[slot];
    struct emu_stream *stream = &client->streams[index];
    struct emu_event *event = &client->events[entry->target % EMU_EVENTS_MAX];
    switch ((enum emu_operation)entry->operation) {
    case EMU_RUN:
        device_save(device, &state->running_count, sizeof(state->running_count));
        device_save(device, &stream->running, sizeof(stream->running));
        contention_kernel_init(&state->running[state->running_count], slot, stream_tag(slot, index),
                               fault_stretch_ns(state, entry->duration_ns), entry->sm_permille,
                               entry->dram_permille);
        state->running_count++;
        stream->running = 1;
        device_commit(device);
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
        device_save(device, &client->memory_bytes, sizeof(client->memory_bytes));
        device_save(device, &state->memory_used_bytes, sizeof(state->memory_used_bytes));
        client->memory_bytes -= entry->value;
        state->memory_used_bytes -= entry->value;
        break;
    case EMU_FAULT:
        finish_entry(device, stream);
        fault_strike(device, slot, CUDA_ERROR_ILLEGAL_ADDRESS, XID_MMU_FAULT);
        return false;
    }
    finish_entry(device, stream);
    device_commit(device);
    return true;
}

/* Starts what can start in one stream at the present time. Sets *progress when anything did, and
 * lowers *arrival_ns to the time of an entry that is still to come. */
static void admit_stream(struct device *device, unsigned slot, unsigned index, bool *progress,
                         uint64_t *arrival_ns)
{
    struct emu_client *client = &device->state->clients[slot];
    struct emu_stream *stream = &client->streams[index];
    const struct emu_entry *entry;
    while (!stream->running && (entry = stream_head(stream)) != NULL) {
        if (entry->enqueued_ns > device->state->usage.time_ns) {
            if (entry->enqueued_ns < *arrival_ns)
                *arrival_ns = entry->enqueued_ns;
            break;
        }
        if (!is_ordered(client, index, entry) || !start_entry(device, slot, index, entry))
            break;
        *progress = true;
    }
    if (atomic_load_explicit(&stream->free_head, memory_order_relaxed) != stream->head)
        atomic_store_explicit(&stream->free_head, stream->head, memory_order_release);
}

static bool has_error(const struct emu_client *client)
{
    return atomic_load_explicit(&client->sticky_error, memory_order_relaxed) != 0;
}

/* Starts everything that can start now; an event recorded in one stream may free another. Returns
 * the time of the next entry that is still to come. */
static uint64_t admit_all(struct device *device)
{
    struct emu_device *state = device->state;
    uint64_t arrival_ns;
    bool progress;
    do {
        progress = false;
        arrival_ns = CONTENTION_NEVER;
        for (unsigned slot = 0; slot < state->clients_high; slot++) {
            const struct emu_client *client = &state->clients[slot];
            if (!client->live || has_error(client))
                continue;
            for (uint64_t left = client->streams_used; left != 0 && !has_error(client);
                 left &= left - 1)
                admit_stream(device, slot, (unsigned)__builtin_ctzll(left), &progress, &arrival_ns);
        }
    } while (progress);
    return arrival_ns;
}

static void add_usage(struct emu_device *state, uint64_t ns)
{
    struct emu_usage *usage = &state->usage;
    usage->time_ns += ns;
    if (state->running_count > 0)
        usage->busy_ns += ns;
    for (unsigned i = 0; i < state->running_count; i++) {
        usage->sm_permille_ns += state->running[i].sm_used * ns;
        usage->dram_permille_ns += state->running[i].dram_used * ns;
    }
    if (usage->time_ns - state->marks[1].time_ns >= UTILISATION_WINDOW_NS) {
        state->marks[0] = state->marks[1];
        state->marks[1] = *usage;
    }
}

/* One step: up to the next change, at most to `limit_ns`. */
static void step(struct device *device, uint64_t limit_ns)
{
    struct emu_device *state = device->state;
    device_save_core(device);
    uint64_t ns = contention_plan(&state->contention, state->running, state->running_count);
    uint64_t left_ns = limit_ns - state->usage.time_ns;
    if (ns > left_ns)
        ns = left_ns;
    contention_elapse(&state->contention, state->running, state->running_count, ns);
    add_usage(state, ns);
    unsigned kept = 0;
    for (unsigned i = 0; i < state->running_count; i++) {
        if (state->running[i].work == 0)
            finish_entry(device, stream_by_tag(state, state->running[i].tag));
        else
            state->running[kept++] = state->running[i];
    }
    state->running_count = kept;
    device_commit(device);
}

static void reap_if_due(struct device *device)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t mono_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (mono_ns - device->state->reaped_mono_ns < REAP_INTERVAL_NS)
        return;
    device->state->reaped_mono_ns = mono_ns; /* one word, right whenever it is cut */
    client_reap(device);
}

void device_advance(struct device *device, uint64_t target_ns)
{
    struct emu_device *state = device->state;
    reap_if_due(device);
    for (;;) {
        uint64_t arrival_ns = admit_all(device);
        if (state->usage.time_ns >= target_ns)
            break;
        step(device, arrival_ns < target_ns ? arrival_ns : target_ns);
    }
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
