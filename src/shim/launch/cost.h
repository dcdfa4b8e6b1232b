/*
 * The costs of launches: the GPU time of a kernel with its grid and block, or of a graph, measured
 * by events around some of its launches. The cost of an unmeasured launch is COST_UNSEEN_NS.
 *
 * A kernel is new until it has been measured COST_SAMPLES_NEW times. The shim measures each launch
 * of a new kernel, and callers that must avoid long launches assume a high cost (cost_is_new). A
 * measurement above COST_SURPRISE_NS that is many times the known cost makes a kernel new again,
 * since a kernel's time may depend on its parameters, which the shim does not read. A kernel that
 * cannot be measured counts as known after COST_TRIES launches. A kernel whose many measurements
 * agreed is settled, and is measured less often: a measurement costs as much as a few launches.
 *
 * For a task without a rate, a gate or a small window, the results set the period of the
 * measurements. The period is long while measurements agree with the known costs. The period is
 * short while measurements disagree, for instance after a program began or its neighbours ended.
 *
 * A measurement counts in full if the stream still had work when the launch reached it. Otherwise
 * the interval contains host time: the measurement is an upper bound, and counts in full only if
 * the host's part is small.
 *
 * A 64-bit hash identifies a launch. Launches with the same hash share a cost; among a thousand
 * kernels, two have the same hash with a probability of about 2^-40. A race between threads loses a
 * measurement at worst.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "abi/cuda.h"
#include "shim/sys/lock.h"

struct process;
struct stream;

enum {
    COST_UNSEEN_NS = 100000,
    COST_COARSE_NS = 90000000,
    COST_WAYS = 4,
    COST_SETS = 2048,     /* a power of two */
    COST_PERIOD = 64,     /* mean number of launches between two measurements */
    COST_PERIOD_MIN = 32, /* shortest period if exact costs are not needed */
    COST_PERIOD_MAX = 2048,
    COST_SAMPLES_NEW = 4,
    COST_SAMPLES_SETTLED = 32,
    /* On average, one in COST_SETTLED_TURNS due launches of a settled kernel is measured. */
    COST_SETTLED_TURNS = 4,
    COST_SURPRISE_NS = 1000000, /* smallest cost that makes a kernel new again */
    COST_CONTEXTS = 32,         /* contexts with measurements */
    COST_TIMINGS = 8,           /* measurements in flight at one time in one context */
    COST_TRIES = 64, /* launches after which a kernel that cannot be measured counts as known */
};

struct cost_entry {
    _Atomic uint32_t cost_ns;
    _Atomic uint8_t samples; /* measurements since the kernel became new or unsettled */
    _Atomic uint8_t tries;   /* launches while the kernel was new */
    _Atomic uint8_t is_collective, is_coarse;
};

struct cost_set {
    _Alignas(64) _Atomic uint64_t keys[COST_WAYS];
    struct cost_entry entries[COST_WAYS];
};
_Static_assert(sizeof(struct cost_set) == 64, "a cache line");

/* One measurement: events before and after a launch. */
struct cost_timing {
    struct cost_timings *timings; /* owner of this timing, from cost_begin() to cost_end() */
    CUevent before, after;
    uint64_t key;
    uint64_t host_ns; /* host time until the launch was in the stream */
    bool is_dry;      /* the stream was idle when the launch reached it */
    bool is_pending;  /* the result was not read yet */
};

/* The measurements of one context, to which their events belong. */
struct cost_timings {
    struct lock lock;
    _Atomic(CUcontext) context; /* NULL: the place is free */
    uint32_t next;              /* index at which the next search begins */
    struct cost_timing timings[COST_TIMINGS];
};

/* Decides which launch is measured next. */
struct cost_pace {
    _Atomic uint32_t launches_left;
    _Atomic uint32_t random;
    /* The period in excess of COST_PERIOD_MIN, for launches without a need for exact costs. */
    _Atomic uint32_t period;
};

struct costs {
    struct cost_set sets[COST_SETS];
    _Atomic uint32_t is_doubted; /* handles may have been reused for other kernels */
    struct lock lock;            /* protects the assignment of places to contexts */
    uint32_t next_place;         /* place where the search for an idle context begins */
    struct cost_timings timings[COST_CONTEXTS];
};

struct cost_launch {
    const void *function; /* handle of the kernel or graph */
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
    h ^= h >> 32; /* a multiplication carries only upwards */
    return h | 1; /* never 0, which marks a free place */
}

static inline struct cost_set *cost_set_of(struct costs *costs, uint64_t key)
{
    return &costs->sets[key >> 20 & (COST_SETS - 1)];
}

/* Returns the entry of an earlier launch with the key, or NULL. */
static inline struct cost_entry *cost_look_up(struct costs *costs, uint64_t key)
{
    struct cost_set *set = cost_set_of(costs, key);
    for (int i = 0; i < COST_WAYS; i++) {
        if (atomic_load_explicit(&set->keys[i], memory_order_acquire) == key)
            return &set->entries[i];
    }
    return NULL;
}

/* Creates the launch's entry, in the place of another entry if necessary. */
struct cost_entry *cost_add(struct process *p, uint64_t key, const struct cost_launch *launch);
/* Returns the launch's entry, and creates the entry if necessary. */
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
/* Returns whether this launch is to be measured. `is_exact`: exact costs are needed. */
static inline bool cost_is_due(struct cost_pace *pace, struct cost_entry *entry, bool is_exact)
{
    uint32_t left = atomic_load_explicit(&pace->launches_left, memory_order_relaxed);
    if (__builtin_expect(left == 0 || cost_is_new(entry), 0))
        return cost_is_due_slowly(pace, entry, is_exact);
    atomic_store_explicit(&pace->launches_left, left - 1, memory_order_relaxed);
    return false;
}
/* Call before and after a launch that is to be measured. cost_begin() returns NULL if the launch
 * cannot be measured. */
struct cost_timing *cost_begin(struct process *p, const struct stream *stream, uint64_t key);
void cost_end(struct process *p, const struct stream *stream, struct cost_timing *timing);
/* Adds a measurement to the entry. */
void cost_take(struct process *p, struct cost_entry *entry, uint64_t ns, uint64_t host_ns,
               bool is_dry);
/* Marks all costs as doubtful, since handles may be reused: each kernel counts as new until it has
 * been measured once more. */
void cost_doubt_all(struct process *p);
/* Call when a handle is reused for a collective. Forgets all doubtful costs, since the handle may
 * have belonged to another kernel. */
void cost_forget_doubted(struct process *p);
/* Forgets a graph's cost, since its handle may be reused. */
void cost_forget(struct costs *costs, uint64_t key);
/* Stops measuring in the context until cost_finish_end(). Call before the driver may end the
 * context. Returns NULL if the context has no measurements. */
struct cost_timings *cost_begin_end(struct process *p, CUcontext context);
/* Ends cost_begin_end(). has_ended: the context ended with its events. */
void cost_finish_end(struct cost_timings *timings, bool has_ended);
/* Resets the state in a forked child. */
void cost_reset(struct costs *costs);
