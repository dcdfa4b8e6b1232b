/*
 * Quick launches: of known, short kernels of a task, into one stream, on a device where the window
 * alone could hold them and has room. Nearly all launches of a training that has its device to
 * itself are such. What a launch needs is in no cache after a program like Python has run, so its
 * price is how many lines of code and data it touches: here these are a line of this page, one of
 * the costs in it, one of the limits, and the few of quick_pay(). Whatever is any different is left
 * to launch.c.
 *
 * Launches that went that way have paid in advance: GPU time charged, and counted as launched.
 * Quick launches live on it and account for nothing else; they are counted when a launch comes that
 * is none, or the program waits for the device. So QUICK_PAID_NS of kernels may run while the marks
 * say that all is done: the agent of one that was killed waits a little longer for that. A stream
 * that loses the page to another, or ends, is charged for those that no mark tells of yet.
 *
 * There is one such page, for one stream at a time. Closed it is for none: while a stream captures,
 * the process ends, limits have changed or a handle may have come to mean another stream. Who has a
 * reason says so first and closes then; who opens looks for reasons afterwards. So none is missed,
 * whoever comes first.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/hook/calls.h"
#include "shim/launch/cost.h"
#include "shim/sys/clock.h"
#include "shim/sys/lock.h"

struct process;
struct stream;

enum {
    QUICK_PAGE_BYTES = 4096,
    QUICK_PAID_NS = 4000000,
    QUICK_CLOCK_TICKS = 1 << 23, /* between two looks at the clock: 2 to 8 ms */
    QUICK_NS_SHIFT = 32,         /* in `paid`: GPU time left, and below it launches */
    QUICK_COST_BITS = 21,        /* in `costs`: below a part of the key */
    QUICK_COST_NS_MAX = (1 << QUICK_COST_BITS) - 1,
    QUICK_SETS = 62,
    QUICK_WAYS = 8,
};
#define QUICK_CLOSED ((CUstream)UINTPTR_MAX) /* no stream's handle */

struct quick {
    /* The line that every launch needs. */
    _Alignas(QUICK_PAGE_BYTES) _Atomic uint64_t paid;
    _Atomic(CUstream) handle;      /* as callers name the stream; QUICK_CLOSED: none */
    _Atomic uint64_t looked_ticks; /* when the clock was read last */
    _Atomic(const struct limits_page *) limits;
    _Atomic uint64_t sequence, messages; /* of the limits, for which this holds */
    _Atomic(__typeof__(&hook_cuLaunchKernel)) cuLaunchKernel; /* the driver's own */
    _Atomic(__typeof__(&hook_cuLaunchKernelEx)) cuLaunchKernelEx;

    /* What others need. */
    struct lock lock;                /* for `paid` to grow, or to be counted */
    _Atomic uint64_t counted;        /* `paid`, when launches were last counted */
    _Atomic uint64_t seen;           /* `paid`, when another stream last would have had it */
    _Atomic(struct stream *) stream; /* that has paid; NULL: none */
    uint64_t untold_ns; /* under the lock: spent since it last paid, of what was counted */

    _Alignas(64) _Atomic uint64_t costs[QUICK_SETS][QUICK_WAYS];
};
_Static_assert(sizeof(struct quick) == QUICK_PAGE_BYTES, "one page, and one entry of a TLB");

static inline _Atomic uint64_t *quick_set(struct quick *quick, uint64_t key)
{
    return quick->costs[(key >> 32) * QUICK_SETS >> 32];
}

/* True: the launch is paid for, and goes to the driver as it is. Not for a call for which stream 0
 * is the thread's own. */
static inline __attribute__((always_inline)) bool
quick_pay(struct quick *quick, const struct cost_launch *what, CUstream handle)
{
#define LOAD(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define OTHERWISE(condition)                                                                       \
    if (__builtin_expect(condition, 0))                                                            \
    return false
    uint64_t paid = LOAD(quick->paid);
    OTHERWISE((uint32_t)paid == 0);
    OTHERWISE(atomic_load_explicit(&quick->handle, memory_order_acquire) != handle);
    const struct limits_page *limits = LOAD(quick->limits);
    OTHERWISE(((LOAD(limits->sequence) ^ LOAD(quick->sequence)) |
               (LOAD(limits->messages) ^ LOAD(quick->messages))) != 0);
    OTHERWISE(clock_ticks() - LOAD(quick->looked_ticks) >= QUICK_CLOCK_TICKS);
    uint64_t key = cost_key(what), entry;
    const _Atomic uint64_t *way = quick_set(quick, key), *end = way + QUICK_WAYS;
    while (((entry = LOAD(*way)) ^ key) >> QUICK_COST_BITS != 0)
        OTHERWISE(++way == end);
    uint64_t cost_ns = entry & QUICK_COST_NS_MAX;
    OTHERWISE(paid >> QUICK_NS_SHIFT < cost_ns);
    uint64_t left = paid - (cost_ns << QUICK_NS_SHIFT) - 1;
    return __builtin_expect(atomic_compare_exchange_strong(&quick->paid, &paid, left), 1);
#undef OTHERWISE
#undef LOAD
}

/* Launches go the long way until quick_open(). Safe in a handler of a signal. */
static inline void quick_close(struct quick *quick)
{
    atomic_store(&quick->handle, QUICK_CLOSED);
}

#ifdef GPUMUX_QUICK_SWITCH
bool quick_is_chosen(void);
void gpumux_quick_choose(int is_chosen);
uint64_t gpumux_quick_paid(void);
#else
static inline bool quick_is_chosen(void)
{
    return true;
}
#endif

void quick_count_slowly(struct process *p, struct quick *quick);
/* Counts the launches so far, and their GPU time. */
static inline void quick_count(struct process *p, struct quick *quick)
{
    if (atomic_load_explicit(&quick->paid, memory_order_relaxed) !=
        atomic_load_explicit(&quick->counted, memory_order_relaxed))
        quick_count_slowly(p, quick);
}

/* Whether the stream is to pay: it did before, or the one that did launches no more. */
bool quick_is_for(struct quick *quick, const struct stream *stream);
/* What is left of what the stream has paid, in ns. */
uint32_t quick_left_ns(const struct quick *quick, const struct stream *stream);
/* The stream has paid so much more; callers name it by this handle. */
void quick_open(struct process *p, struct stream *stream, CUstream handle, uint32_t more_ns);

/* The stream has no quick launches any more. What it spent since it last paid is charged, so that
 * its next mark tells when all of it is done. */
void quick_settle(struct process *p, struct stream *stream);

/* What a launch costs, which is not new (cost.h), and no collective. */
void quick_learn(struct quick *quick, uint64_t key, uint64_t cost_ns);
/* It may have changed. */
void quick_forget(struct quick *quick, uint64_t key);
void quick_forget_all(struct quick *quick);
/* In a child. */
void quick_reset(struct quick *quick);
