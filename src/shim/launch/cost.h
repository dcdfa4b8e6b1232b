/*
 * What launches cost: the time that a kernel of one grid and block, or a graph, takes on the
 * device. Known from events around a launch now and then; not known yet is COST_UNSEEN_NS. A kernel
 * is new until it was measured COST_SAMPLES_NEW times: each of its launches is measured, and who
 * must not be surprised takes it for long (cost_is_new). It is new again when a measurement is
 * long, and many times what was known: a kernel's time may be in its parameters, which are not
 * looked at. What cannot be measured is taken for known after COST_TRIES. One that was measured
 * often and never took many times longer or shorter is settled, and measured more rarely: a
 * measurement costs as much as a few launches. Where little depends on it, what measurements find
 * says how often the next is taken: rarely while they agree with what is known, and soon when they
 * do not, be it that a program begins or that its neighbours have gone.
 *
 * A measurement counts in full if the stream had work until the launch was in it. If not, the
 * host's own time is in the interval: it is then an upper bound, and a measurement only where that
 * time is a small part.
 *
 * Entries are found by a hash of 64 bits, which stands for the launch: two that share it (once in
 * 2^40 for a thousand kernels) share a cost. Races between threads lose a measurement at worst.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/hook/cuda_types.h"
#include "shim/sys/lock.h"

struct process;
struct stream;

enum {
    COST_UNSEEN_NS = 100000,
    COST_COARSE_NS = 90000000,
    COST_WAYS = 4,
    COST_SETS = 2048,     /* a power of two */
    COST_PERIOD = 64,     /* launches between two measurements, about */
    COST_PERIOD_MIN = 32, /* where little depends on it */
    COST_PERIOD_MAX = 2048,
    COST_SAMPLES_NEW = 4,
    COST_SAMPLES_SETTLED = 32,
    COST_SETTLED_TURNS = 4,     /* of a settled kernel's turns to be measured one is taken, about */
    COST_SURPRISE_NS = 1000000, /* what is shorter surprises nobody: many of them are harmless */
    COST_CONTEXTS = 32,         /* with measurements */
    COST_TIMINGS = 8,           /* under way at the same time, in one context */
    COST_TRIES = 64, /* launches after which one that cannot be measured passes for measured */
};

struct cost_entry {
    _Atomic uint32_t cost_ns;
    _Atomic uint8_t samples; /* since it was new, or not settled */
    _Atomic uint8_t tries;   /* launches while it was new */
    _Atomic uint8_t is_collective, is_coarse;
};

struct cost_set {
    _Alignas(64) _Atomic uint64_t keys[COST_WAYS];
    struct cost_entry entries[COST_WAYS];
};
_Static_assert(sizeof(struct cost_set) == 64, "a line of the cache");

/* One measurement: events before and behind a launch. */
struct cost_timing {
    struct cost_timings *timings; /* that it is one of, from cost_begin() to cost_end() */
    CUevent before, after;
    uint64_t key;
    uint64_t host_ns; /* until the launch was in the stream */
    bool is_dry;
    bool is_pending;
};

/* Of one context, as its events are. */
struct cost_timings {
    struct lock lock;
    _Atomic(CUcontext) context; /* NULL: the place is free */
    uint32_t next;              /* where the next look begins */
    struct cost_timing timings[COST_TIMINGS];
};

/* Which launch is measured next. */
struct cost_pace {
    _Atomic uint32_t launches_left;
    _Atomic uint32_t random;
    _Atomic uint32_t period; /* where little depends on it, beyond COST_PERIOD_MIN */
};

struct costs {
    struct cost_set sets[COST_SETS];
    _Atomic uint32_t is_doubted; /* handles may have come to mean others */
    struct lock lock;            /* for a context to get a place */
    uint32_t next_place;         /* where to look for one that can do without */
    struct cost_timings timings[COST_CONTEXTS];
};

struct cost_launch {
    const void *function; /* or a graph */
    uint32_t grid[3], block[3];
    bool is_graph;
};

static inline uint64_t cost_key(const struct cost_launch *launch)
{
    const uint64_t a = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (uint64_t)(uintptr_t)launch->function * a;
    h = (h ^ (launch->grid[0] | (uint64_t)launch->grid[1] << 32)) * a;
    h = (h ^ (launch->grid[2] | (uint64_t)launch->block[0] << 32)) * a;
    h = (h ^ (launch->block[1] | (uint64_t)launch->block[2] << 32)) * a;
    h ^= h >> 32; /* a factor carries upwards alone */
    return h | 1; /* never 0: a free place */
}

static inline struct cost_set *cost_set_of(struct costs *costs, uint64_t key)
{
    return &costs->sets[key >> 20 & (COST_SETS - 1)];
}

/* The entry of what was launched before; NULL: there is none. */
static inline struct cost_entry *cost_look_up(struct costs *costs, uint64_t key)
{
    struct cost_set *set = cost_set_of(costs, key);
    for (int i = 0; i < COST_WAYS; i++) {
        if (atomic_load_explicit(&set->keys[i], memory_order_acquire) == key)
            return &set->entries[i];
    }
    return NULL;
}

struct cost_entry *cost_add(struct process *p, uint64_t key, const struct cost_launch *launch);
/* The launch's entry, made if there is none. */
static inline struct cost_entry *cost_find(struct process *p, struct costs *costs, uint64_t key,
                                           const struct cost_launch *launch)
{
    struct cost_entry *entry = cost_look_up(costs, key);
    return __builtin_expect(entry != NULL, 1) ? entry : cost_add(p, key, launch);
}
static inline bool cost_is_known(const struct cost_entry *entry)
{
    return atomic_load_explicit(&entry->samples, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&entry->tries, memory_order_relaxed) >= COST_TRIES;
}
static inline bool cost_is_new(const struct cost_entry *entry)
{
    return atomic_load_explicit(&entry->samples, memory_order_relaxed) < COST_SAMPLES_NEW &&
           atomic_load_explicit(&entry->tries, memory_order_relaxed) < COST_TRIES;
}

bool cost_is_due_slowly(struct cost_pace *pace, struct cost_entry *entry, bool is_exact);
/* Whether this launch is to be measured. `is_exact`: much depends on its cost. */
static inline bool cost_is_due(struct cost_pace *pace, struct cost_entry *entry, bool is_exact)
{
    uint32_t left = atomic_load_explicit(&pace->launches_left, memory_order_relaxed);
    if (__builtin_expect(left == 0 || cost_is_new(entry), 0))
        return cost_is_due_slowly(pace, entry, is_exact);
    atomic_store_explicit(&pace->launches_left, left - 1, memory_order_relaxed);
    return false;
}
/* Around a launch that is measured. NULL: it cannot be. */
struct cost_timing *cost_begin(struct process *p, const struct stream *stream, uint64_t key);
void cost_end(struct process *p, const struct stream *stream, struct cost_timing *timing);
/* Takes a measurement into the entry. */
void cost_take(struct process *p, struct cost_entry *entry, uint64_t ns, uint64_t host_ns,
               bool is_dry);
/* Any handle may come to mean another kernel: each is measured once more, and passes for new until
 * it was. */
void cost_doubt_all(struct process *p);
/* A handle has come to mean a collective. If there was doubt, all is forgotten: it may have been
 * known as another kernel. */
void cost_forget_doubted(struct process *p);
/* A handle comes to mean another graph. */
void cost_forget(struct costs *costs, uint64_t key);
/* Before the driver may end the context: nothing is measured in it until cost_finish_end(). NULL:
 * nothing was. */
struct cost_timings *cost_begin_end(struct process *p, CUcontext context);
/* After that: its events ended with it, or it lives on. */
void cost_finish_end(struct cost_timings *timings, bool has_ended);
/* In a child. */
void cost_reset(struct costs *costs);
