/*
 * A quick launch: of a known, short kernel of a task, into a known stream of a device where the window alone could hold
 * it, and has room. Nearly all launches of a training that has its device to itself are such. What a launch needs is
 * in no cache after a program like Python has run, so its price is how many lines of code and data it touches: here they
 * are as few as there can be, in the caller's own code. Whatever is any different is left to launch.c.
 *
 * A stream has some GPU time paid in advance (launch.c): charged, and counted as launched, with a launch that went the
 * long way. Quick launches live on it and account for nothing else. So about LAUNCH_PREPAID_NS of a device's kernels
 * may run while the marks say that all is done, which is little of what is harmless.
 */
#pragma once
#include "shim/clock.h"
#include "shim/process.h"

/* True: the launch is paid for, and goes to the driver as it is. Not for a call for which stream 0 is the thread's own. */
static inline __attribute__((always_inline)) bool
quick_pay(struct process *p, const struct cost_launch *what, CUstream handle)
{
#define OTHERWISE(condition)                                                                       \
    if (__builtin_expect(condition, 0))                                                            \
    return false
    struct launch *launch = p->launch;
    uint32_t left = atomic_load_explicit(&launch->pace.launches_left, memory_order_relaxed);
    OTHERWISE(atomic_load_explicit(&launch->is_prepaid, memory_order_relaxed) == 0);
    uint64_t looked = atomic_load_explicit(&launch->looked_ticks, memory_order_relaxed);
    OTHERWISE(left == 0 || clock_ticks() - looked >= LAUNCH_CLOCK_TICKS);
    OTHERWISE(atomic_load_explicit(&launch->captures, memory_order_relaxed) > 0);
    struct stream *stream = launch_known_stream(launch, handle);
    OTHERWISE(!stream);
    const struct cost_entry *entry = cost_look_up(&launch->costs, cost_key(what));
    OTHERWISE(!entry || cost_is_new(entry));
    OTHERWISE(atomic_load_explicit(&entry->is_collective, memory_order_relaxed));
    uint32_t cost_ns = atomic_load_explicit(&entry->cost_ns, memory_order_relaxed);
    OTHERWISE(cost_ns > LAUNCH_PREPAID_NS);
    int32_t paid_ns = atomic_load_explicit(&stream->prepaid_ns, memory_order_relaxed);
    int32_t left_ns = paid_ns - (int32_t)cost_ns;
    OTHERWISE(left_ns < 0);
    OTHERWISE(!atomic_compare_exchange_strong(&stream->prepaid_ns, &paid_ns, left_ns));
#undef OTHERWISE
    atomic_store_explicit(&launch->pace.launches_left, left - 1, memory_order_relaxed);
    return true;
}
