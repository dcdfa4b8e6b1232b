#include "shim/launch/cost.h"

#include <string.h>

#include "shim/hook/capture.h"
#include "shim/sys/clock.h"

enum {
    AVERAGE_PARTS = 4, /* inverse weight of a measurement in the average */
    /* A longer measurement counts as this many times the average: it may include a neighbour's
     * work. */
    OUTLIER_TIMES = 4,
    DRY_PARTS = 8, /* inverse of the host's largest part in an interval that counts in full */
    /* Fraction of the period by which its length varies, since launches come in patterns. */
    SPREAD_PARTS = 2,
    LONGER_PARTS = 8, /* fraction by which the period grows if the next measurement agrees */
};

/* Returns a place of the set: a free one, or else any. */
static int choose_way(const struct cost_set *set, uint64_t key)
{
    for (int i = 0; i < COST_WAYS; i++) {
        if (atomic_load_explicit(&set->keys[i], memory_order_relaxed) == 0)
            return i;
    }
    return (int)(key >> 40) & (COST_WAYS - 1);
}

struct cost_entry *cost_add(struct process *p, uint64_t key, const struct cost_launch *launch)
{
    struct cost_set *set = cost_set_of(&p->launch->costs, key);
    int way = choose_way(set, key);
    struct cost_entry *entry = &set->entries[way];
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

static uint32_t draw(struct cost_pace *pace)
{
    uint32_t random = atomic_load_explicit(&pace->random, memory_order_relaxed);
    random = random * 1664525 + 1013904223;
    atomic_store_explicit(&pace->random, random, memory_order_relaxed);
    return random >> 16;
}

static bool is_settled(const struct cost_entry *entry)
{
    return atomic_load_explicit(&entry->samples, memory_order_relaxed) >= COST_SAMPLES_SETTLED;
}

static uint32_t inexact_period(const struct cost_pace *pace)
{
    return COST_PERIOD_MIN + atomic_load_explicit(&pace->period, memory_order_relaxed);
}

bool cost_is_due_slowly(struct cost_pace *pace, struct cost_entry *entry, bool is_exact)
{
    uint32_t period = is_exact ? COST_PERIOD : inexact_period(pace);
    uint32_t spread = period / SPREAD_PARTS;
    if (cost_is_new(entry))
        atomic_fetch_add_explicit(&entry->tries, 1, memory_order_relaxed);
    atomic_store_explicit(&pace->launches_left, period - spread / 2 + draw(pace) % spread,
                          memory_order_relaxed);
    return !is_exact || !is_settled(entry) || draw(pace) % COST_SETTLED_TURNS == 0;
}

/* A measurement below two thirds or above twice the known cost does not agree: kernels differ by
 * that much between having the device alone and having neighbours. */
static void set_pace(struct cost_pace *pace, uint64_t known_ns, uint64_t cost_ns, bool is_bound)
{
    bool is_shorter = cost_ns * 3 < known_ns * 2;
    bool is_longer = !is_bound && cost_ns > known_ns * 2;
    uint32_t period = inexact_period(pace);
    period = is_shorter || is_longer ? period / 2 : period + period / LONGER_PARTS;
    if (period > COST_PERIOD_MAX)
        period = COST_PERIOD_MAX;
    atomic_store_explicit(&pace->period, period > COST_PERIOD_MIN ? period - COST_PERIOD_MIN : 0,
                          memory_order_relaxed);
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
    /* Twice in a row, since a first launch may load a module, and any launch may meet a stalled
     * machine. */
    bool is_coarse = ns > COST_COARSE_NS && old > COST_COARSE_NS && samples > 0 && !is_bound;
    if (is_coarse && !atomic_exchange(&entry->is_coarse, 1))
        process_count(p, STATUS_launches_coarse, 1);
    if (samples < UINT8_MAX)
        atomic_store_explicit(&entry->samples, (uint8_t)(samples + 1), memory_order_relaxed);
    if (samples > 0)
        set_pace(&p->launch->pace, old, cost, is_bound);
    if (is_bound) {
        if (cost < old)
            atomic_store_explicit(&entry->cost_ns, cost, memory_order_relaxed);
        return;
    }
    /* The first launch of a kernel may also load it. */
    bool is_first = samples == 0 || (samples == 1 && cost < old);
    if (!is_first) {
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

/* Collects finished measurements, under the lock. The first unfinished one ends the visit, since
 * later ones are mostly unfinished too and each query has a cost. The next visit starts after it,
 * so that a measurement that never finishes does not block the others. */
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
        struct cost_entry *entry = cost_look_up(&p->launch->costs, timing->key);
        uint64_t ns = elapsed_ns(p, timing);
        if (entry && ns > 0)
            cost_take(p, entry, ns, timing->host_ns, timing->is_dry);
    }
}

/* An event belongs to the context that is current when it is made, and a stream's context need not
 * be current. */
static bool make_events(struct process *p, CUcontext context, struct cost_timing *timing)
{
    const struct real_calls *real = &p->calls.real;
    CUcontext current = NULL, popped;
    bool is_current = real->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
    if (!is_current && real->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    if (!timing->before && real->cuEventCreate(&timing->before, 0) != CUDA_SUCCESS)
        timing->before = NULL;
    if (!timing->after && real->cuEventCreate(&timing->after, 0) != CUDA_SUCCESS)
        timing->after = NULL;
    if (!is_current)
        (void)real->cuCtxPopCurrent_v2(&popped);
    return timing->before && timing->after;
}

/* Returns a free timing with its events, under the lock. */
static struct cost_timing *take_timing(struct process *p, struct cost_timings *timings)
{
    for (int i = 0; i < COST_TIMINGS; i++) {
        struct cost_timing *timing = &timings->timings[i];
        if (timing->is_pending)
            continue;
        bool has_events = timing->before && timing->after;
        return has_events || make_events(p, atomic_load(&timings->context), timing) ? timing : NULL;
    }
    return NULL;
}

/* Forgets the events, under the lock. The place is free afterwards. */
static void forget_events(struct cost_timings *timings)
{
    memset(timings->timings, 0, sizeof(timings->timings));
    atomic_store(&timings->context, NULL);
}

static void destroy_events(struct process *p, struct cost_timings *timings)
{
    for (int i = 0; i < COST_TIMINGS; i++) {
        const struct cost_timing *timing = &timings->timings[i];
        if (timing->before)
            (void)p->calls.real.cuEventDestroy_v2(timing->before);
        if (timing->after)
            (void)p->calls.real.cuEventDestroy_v2(timing->after);
    }
    forget_events(timings);
}

static struct cost_timings *find_place(struct costs *costs, CUcontext context)
{
    for (int i = 0; i < COST_CONTEXTS; i++) {
        if (atomic_load_explicit(&costs->timings[i].context, memory_order_acquire) == context)
            return &costs->timings[i];
    }
    return NULL;
}

static bool has_pending(const struct cost_timings *timings)
{
    for (int i = 0; i < COST_TIMINGS; i++) {
        if (timings->timings[i].is_pending)
            return true;
    }
    return false;
}

/* Frees the place of a context that measures nothing now, under the costs' lock, searching from the
 * place after the last one freed. */
static struct cost_timings *free_place(struct process *p, struct costs *costs)
{
    for (int looks = 0; looks < COST_CONTEXTS; looks++) {
        struct cost_timings *timings = &costs->timings[costs->next_place];
        costs->next_place = (costs->next_place + 1) % COST_CONTEXTS;
        if (!lock_try(&timings->lock))
            continue;
        collect(p, timings);
        bool is_free = !has_pending(timings);
        if (is_free)
            destroy_events(p, timings);
        lock_release(&timings->lock);
        if (is_free)
            return timings;
    }
    return NULL;
}

/* Returns the context's place; NULL if no place is free now. */
static struct cost_timings *take_place(struct process *p, CUcontext context)
{
    struct costs *costs = &p->launch->costs;
    struct cost_timings *timings = find_place(costs, context);
    if (timings || !lock_try(&costs->lock))
        return timings;
    timings = find_place(costs, context);
    if (!timings && ((timings = find_place(costs, NULL)) || (timings = free_place(p, costs))))
        atomic_store(&timings->context, context);
    lock_release(&costs->lock);
    return timings;
}

/* Returns NULL with no lock taken. */
static struct cost_timing *record_before(struct process *p, const struct stream *stream)
{
    struct cost_timings *timings = take_place(p, stream->context);
    struct cost_timing *timing = NULL;
    if (!timings || !lock_try(&timings->lock))
        return NULL;
    /* The place may have gone to another context meanwhile. */
    if (atomic_load(&timings->context) == stream->context) {
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
    timing->timings = timings;
    return timing;
}

/* cost_end() releases the lock: one measurement begins at a time, and a thread that finds the lock
 * taken does not measure. Relaxed mode protects a capture that another thread begins after the
 * check here from the queries of events. */
struct cost_timing *cost_begin(struct process *p, const struct stream *stream, uint64_t key)
{
    if (stream->device < 0 || !stream->context || atomic_load(&p->launch->captures) > 0)
        return NULL;
    CUstreamCaptureMode mode = capture_relax(p);
    struct cost_timing *timing = record_before(p, stream);
    capture_restore(p, mode);
    if (!timing)
        return NULL;
    timing->key = key;
    timing->host_ns = clock_now_ns();
    return timing;
}

void cost_end(struct process *p, const struct stream *stream, struct cost_timing *timing)
{
    struct cost_timings *timings = timing->timings;
    timing->host_ns = clock_now_ns() - timing->host_ns;
    CUstreamCaptureMode mode = capture_relax(p);
    timing->is_dry = p->calls.real.cuEventQuery(timing->before) == CUDA_SUCCESS;
    timing->is_pending = p->calls.real.cuEventRecord(timing->after, stream->handle) == CUDA_SUCCESS;
    capture_restore(p, mode);
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

/* Programs that generate kernels at run time unload modules all the time, and most remaining
 * kernels keep their cost. A collective is forgotten, since an ordinary kernel must not pass as
 * one. */
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

void cost_doubt_all(struct process *p)
{
    struct costs *costs = &p->launch->costs;
    for (int i = 0; i < COST_SETS; i++) {
        for (int way = 0; way < COST_WAYS; way++)
            doubt(&costs->sets[i], way);
    }
    atomic_store(&costs->is_doubted, 1);
}

void cost_forget_doubted(struct process *p)
{
    if (!atomic_load(&p->launch->costs.is_doubted))
        return;
    forget_all(&p->launch->costs);
}

void cost_forget(struct costs *costs, uint64_t key)
{
    struct cost_set *set = cost_set_of(costs, key);
    for (int i = 0; i < COST_WAYS; i++) {
        uint64_t expected = key;
        atomic_compare_exchange_strong(&set->keys[i], &expected, 0);
    }
}

/* Keeps the lock until cost_finish_end(): a thread that would measure finds the lock taken. */
struct cost_timings *cost_begin_end(struct process *p, CUcontext context)
{
    struct cost_timings *timings = find_place(&p->launch->costs, context);
    if (!timings || !lock_enter(&timings->lock))
        return NULL;
    if (atomic_load(&timings->context) == context)
        return timings;
    lock_release(&timings->lock);
    return NULL;
}

void cost_finish_end(struct cost_timings *timings, bool has_ended)
{
    if (!timings)
        return;
    if (has_ended)
        forget_events(timings);
    lock_release(&timings->lock);
}

void cost_reset(struct costs *costs)
{
    forget_all(costs);
    lock_init(&costs->lock);
    for (int i = 0; i < COST_CONTEXTS; i++) {
        lock_init(&costs->timings[i].lock);
        forget_events(&costs->timings[i]);
    }
}
