#include "shim/cost.h"

#include <string.h>

#include "shim/clock.h"
#include "shim/process.h"

enum {
    AVERAGE_PARTS = 4, /* a measurement's weight is one of them */
    OUTLIER_TIMES =
        4, /* what is longer counts for so many times the average: a neighbour may be in it */
    DRY_PARTS = 8,      /* the host's part of an interval that still is a measurement */
    PERIOD_SPREAD = 32, /* a period's length varies by so much: launches come in patterns */
};

static struct cost_set *set_of(struct costs *costs, uint64_t key)
{
    return &costs->sets[key >> 20 & (COST_SETS - 1)];
}

static struct cost_entry *look_up(struct costs *costs, uint64_t key)
{
    struct cost_set *set = set_of(costs, key);
    for (int i = 0; i < COST_WAYS; i++) {
        if (atomic_load_explicit(&set->keys[i], memory_order_acquire) == key)
            return &set->entries[i];
    }
    return NULL;
}

/* A place of the set: a free one, else any. */
static int choose_way(const struct cost_set *set, uint64_t key)
{
    for (int i = 0; i < COST_WAYS; i++) {
        if (atomic_load_explicit(&set->keys[i], memory_order_relaxed) == 0)
            return i;
    }
    return (int)(key >> 40) & (COST_WAYS - 1);
}

struct cost_entry *cost_find(struct process *p, uint64_t key, const struct cost_launch *launch)
{
    struct costs *costs = &p->launch->costs;
    struct cost_entry *entry = look_up(costs, key);
    if (__builtin_expect(entry != NULL, 1))
        return entry;
    struct cost_set *set = set_of(costs, key);
    int way = choose_way(set, key);
    entry = &set->entries[way];
    atomic_store_explicit(&set->keys[way], 0, memory_order_release);
    atomic_store(&entry->cost_ns, COST_UNSEEN_NS);
    atomic_store(&entry->samples, 0);
    atomic_store(&entry->tries, 0);
    atomic_store(&entry->is_coarse, 0);
    atomic_store(&entry->is_collective,
                 launch->is_graph ? collective_is_captured(&p->launch->collectives)
                                  : collective_has(&p->launch->collectives, launch->function));
    atomic_store_explicit(&set->keys[way], key, memory_order_release);
    return entry;
}

static uint32_t draw(struct costs *costs)
{
    uint32_t random = atomic_load_explicit(&costs->random, memory_order_relaxed);
    random = random * 1664525 + 1013904223;
    atomic_store_explicit(&costs->random, random, memory_order_relaxed);
    return random >> 16;
}

static bool is_settled(const struct cost_entry *entry)
{
    return atomic_load_explicit(&entry->samples, memory_order_relaxed) >= COST_SAMPLES_SETTLED;
}

bool cost_is_due(struct costs *costs, struct cost_entry *entry)
{
    uint32_t left = atomic_load_explicit(&costs->launches_left, memory_order_relaxed);
    bool is_new = cost_is_new(entry);
    if (__builtin_expect(left > 0 && !is_new, 1)) {
        atomic_store_explicit(&costs->launches_left, left - 1, memory_order_relaxed);
        return false;
    }
    if (is_new)
        atomic_fetch_add_explicit(&entry->tries, 1, memory_order_relaxed);
    atomic_store_explicit(&costs->launches_left,
                          COST_PERIOD - PERIOD_SPREAD / 2 + draw(costs) % PERIOD_SPREAD,
                          memory_order_relaxed);
    return !is_settled(entry) || draw(costs) % COST_SETTLED_TURNS == 0;
}

/* ---- measuring ---- */

void cost_take(struct process *p, struct cost_entry *entry, uint64_t ns, uint64_t host_ns,
               bool is_dry)
{
    uint32_t old = atomic_load_explicit(&entry->cost_ns, memory_order_relaxed);
    uint8_t samples = atomic_load_explicit(&entry->samples, memory_order_relaxed);
    uint32_t cost = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    bool is_bound = is_dry && host_ns * DRY_PARTS > ns;
    process_count(p, STATUS_launches_timed, 1);
    if (is_bound)
        process_count(p, STATUS_timings_discarded, 1);
    if (cost == 0)
        cost = 1;
    if (ns > COST_COARSE_NS && !atomic_exchange(&entry->is_coarse, 1))
        process_count(p, STATUS_launches_coarse, 1);
    if (samples < UINT8_MAX)
        atomic_store_explicit(&entry->samples, (uint8_t)(samples + 1), memory_order_relaxed);
    if (is_bound) {
        if (cost < old)
            atomic_store_explicit(&entry->cost_ns, cost, memory_order_relaxed);
        return;
    }
    if (samples > 0) {
        uint64_t most = (uint64_t)old * OUTLIER_TIMES;
        bool is_outlier = samples >= COST_SAMPLES_NEW && cost > most;
        if (is_outlier && cost >= COST_SURPRISE_NS) {
            atomic_store_explicit(&entry->samples, 1, memory_order_relaxed);
            atomic_store_explicit(&entry->tries, 0, memory_order_relaxed);
        } else if (samples > COST_SAMPLES_NEW &&
                   (is_outlier || (uint64_t)cost * OUTLIER_TIMES < old)) {
            atomic_store_explicit(&entry->samples, COST_SAMPLES_NEW, memory_order_relaxed);
        }
        cost = (uint32_t)(((uint64_t)old * (AVERAGE_PARTS - 1) + (is_outlier ? most : cost)) /
                          AVERAGE_PARTS);
    }
    atomic_store_explicit(&entry->cost_ns, cost, memory_order_relaxed);
}

static uint64_t elapsed_ns(struct process *p, const struct cost_timing *timing)
{
    float ms = 0;
    CUresult r = p->calls.has[CALL_cuEventElapsedTime_v2]
                     ? p->calls.real.cuEventElapsedTime_v2(&ms, timing->before, timing->after)
                     : p->calls.real.cuEventElapsedTime(&ms, timing->before, timing->after);
    return r == CUDA_SUCCESS && ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
}

/* Under the lock: takes what has finished. One that still runs ends the look, since those behind it mostly run too and each
 * question has its price; the next look goes on behind it, so that one that never ends keeps nobody but itself. */
static void collect(struct process *p, struct cost_timings *timings)
{
    for (int looks = 0; looks < COST_TIMINGS; looks++) {
        struct cost_timing *timing = &timings->timings[timings->next];
        bool is_over =
            timing->is_pending && p->calls.real.cuEventQuery(timing->after) == CUDA_SUCCESS;
        bool is_running = timing->is_pending && !is_over;
        timings->next = (timings->next + 1) % COST_TIMINGS;
        if (is_running)
            return;
        if (!is_over)
            continue;
        timing->is_pending = false;
        struct cost_entry *entry = look_up(&p->launch->costs, timing->key);
        uint64_t ns = elapsed_ns(p, timing);
        if (entry && ns > 0)
            cost_take(p, entry, ns, timing->host_ns, timing->is_dry);
    }
}

/* Under the lock: one that is free, with its events. */
static struct cost_timing *take_timing(struct process *p, struct cost_timings *timings)
{
    for (int i = 0; i < COST_TIMINGS; i++) {
        struct cost_timing *timing = &timings->timings[i];
        if (timing->is_pending)
            continue;
        if (!timing->before && p->calls.real.cuEventCreate(&timing->before, 0) != CUDA_SUCCESS) {
            timing->before = NULL;
            return NULL;
        }
        if (!timing->after && p->calls.real.cuEventCreate(&timing->after, 0) != CUDA_SUCCESS) {
            timing->after = NULL;
            return NULL;
        }
        return timing;
    }
    return NULL;
}

/* Events end with their context. */
static void forget_events(struct cost_timings *timings)
{
    timings->context = NULL;
    memset(timings->timings, 0, sizeof(timings->timings));
}

/* The lock is kept until cost_end(): one measurement is begun at a time, and who finds it taken does without. */
struct cost_timing *cost_begin(struct process *p, const struct stream *stream, uint64_t key)
{
    if (stream->device < 0 || atomic_load(&p->launch->streams.captures) > 0)
        return NULL;
    struct cost_timings *timings = &p->launch->costs.timings[stream->device];
    CUcontext current = NULL;
    if (p->calls.real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != stream->context ||
        !lock_try(&timings->lock))
        return NULL;
    if (!timings->context)
        timings->context = current;
    struct cost_timing *timing = NULL;
    if (timings->context == current) {
        collect(p, timings);
        timing = take_timing(p, timings);
    }
    if (timing && p->calls.real.cuEventRecord(timing->before, stream->handle) != CUDA_SUCCESS) {
        forget_events(timings);
        timing = NULL;
    }
    if (!timing) {
        lock_release(&timings->lock);
        return NULL;
    }
    timing->key = key;
    timing->host_ns = clock_now_ns();
    return timing;
}

void cost_end(struct process *p, const struct stream *stream, struct cost_timing *timing)
{
    struct cost_timings *timings = &p->launch->costs.timings[stream->device];
    timing->host_ns = clock_now_ns() - timing->host_ns;
    timing->is_dry = p->calls.real.cuEventQuery(timing->before) == CUDA_SUCCESS;
    timing->is_pending = p->calls.real.cuEventRecord(timing->after, stream->handle) == CUDA_SUCCESS;
    lock_release(&timings->lock);
}

/* ---- forgetting ---- */

static void forget_all(struct costs *costs)
{
    atomic_store(&costs->is_doubted, 0);
    for (int i = 0; i < COST_SETS; i++) {
        for (int way = 0; way < COST_WAYS; way++)
            atomic_store_explicit(&costs->sets[i].keys[way], 0, memory_order_relaxed);
    }
}

/* Programs that make kernels while they run unload modules all the time; mostly every kernel that is left is what it was. A
 * collective is forgotten: what is none must not pass as one. */
static void doubt(struct cost_set *set, int way)
{
    struct cost_entry *entry = &set->entries[way];
    if (atomic_load_explicit(&set->keys[way], memory_order_acquire) == 0)
        return;
    if (atomic_load_explicit(&entry->is_collective, memory_order_relaxed))
        atomic_store_explicit(&set->keys[way], 0, memory_order_relaxed);
    if (atomic_load_explicit(&entry->samples, memory_order_relaxed) >= COST_SAMPLES_NEW)
        atomic_store_explicit(&entry->samples, COST_SAMPLES_NEW - 1, memory_order_relaxed);
    atomic_store_explicit(&entry->tries, 0, memory_order_relaxed);
}

void cost_doubt_all(struct costs *costs)
{
    for (int i = 0; i < COST_SETS; i++) {
        for (int way = 0; way < COST_WAYS; way++)
            doubt(&costs->sets[i], way);
    }
    atomic_store(&costs->is_doubted, 1);
}

void cost_forget_doubted(struct costs *costs)
{
    if (atomic_load(&costs->is_doubted))
        forget_all(costs);
}

void cost_forget(struct costs *costs, uint64_t key)
{
    struct cost_set *set = set_of(costs, key);
    for (int i = 0; i < COST_WAYS; i++) {
        uint64_t expected = key;
        atomic_compare_exchange_strong(&set->keys[i], &expected, 0);
    }
}

void cost_reset(struct costs *costs)
{
    forget_all(costs);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
        lock_init(&costs->timings[i].lock);
        forget_events(&costs->timings[i]);
    }
}
