/*
 * The usual launch: of a known kernel of a task, into a known stream of a device where the window alone could hold it, and
 * has room. Nearly all launches of a training that has its device to itself are such. This is launch_begin() and
 * launch_end() (launch.h) for them. What a launch needs is in no cache after a program like Python has run, so its
 * price is how many lines of code and data it touches: here they are as few as there can be, in the caller's own code.
 * Whatever is any different is left to launch.c.
 *
 * Nothing is added up after the driver's call: it ends with a write to the device, which an atomic addition would wait
 * for. So what is launched counts as such a moment before it is, and a mark that another thread puts there in between counts it
 * as done too early: one kernel of known cost, where the window is one that only keeps a kill harmless.
 */
#pragma once
#include "shim/clock.h"
#include "shim/process.h"

/* The stream, with the launch charged to it, and what is launched into it then; NULL: nothing was done. Not for a call for which stream 0 is the thread's own. */
static inline __attribute__((always_inline)) struct stream *
quick_begin(struct process *p, const struct cost_launch *what, CUstream handle,
            uint64_t *ret_launched)
{
#define OTHERWISE(condition)                                                                       \
    if (__builtin_expect(condition, 0))                                                            \
    return NULL
    struct launch *launch = p->launch;
    uint32_t left = atomic_load_explicit(&launch->pace.launches_left, memory_order_relaxed);
    uint64_t looked = atomic_load_explicit(&launch->looked_ticks, memory_order_relaxed);
    OTHERWISE(left == 0 || clock_ticks() - looked >= LAUNCH_CLOCK_TICKS);
    OTHERWISE(atomic_load_explicit(&launch->captures, memory_order_relaxed) > 0);
    struct stream *stream = launch_known_stream(launch, handle);
    OTHERWISE(!stream || stream->device < 0);
    const struct cost_entry *entry = cost_look_up(&launch->costs, cost_key(what));
    OTHERWISE(!entry || cost_is_new(entry));
    OTHERWISE(atomic_load_explicit(&entry->is_collective, memory_order_relaxed));
    struct launch_device *device = &launch->devices[stream->device];
    uint64_t cost_ns = atomic_load_explicit(&entry->cost_ns, memory_order_relaxed);
    uint64_t charged = atomic_load_explicit(&device->window.charged_ns, memory_order_relaxed);
    uint64_t done = atomic_load_explicit(&device->window.done_ns, memory_order_relaxed);
    uint64_t window_ns = atomic_load_explicit(&device->quick_ns, memory_order_relaxed);
    OTHERWISE(charged + cost_ns > done + window_ns);
#undef OTHERWISE
    atomic_store_explicit(&launch->pace.launches_left, left - 1, memory_order_relaxed);
    window_charge(&device->window, cost_ns);
    atomic_fetch_add(&p->client.status->started[stream->slot], cost_ns);
    process_count(p, STATUS_gpu_time_kernel_ns, cost_ns);
    *ret_launched =
        atomic_fetch_add_explicit(&stream->launched, cost_ns, memory_order_release) + cost_ns;
    return stream;
}

static inline __attribute__((always_inline)) void
quick_end(struct process *p, struct stream *stream, uint64_t launched)
{
    const struct launch_device *device = &p->launch->devices[stream->device];
    uint64_t marked = atomic_load_explicit(&stream->marked, memory_order_relaxed);
    uint64_t window_ns = atomic_load_explicit(&device->quick_ns, memory_order_relaxed);
    if (__builtin_expect(marked < launched && (launched - marked) * WINDOW_MARKS >= window_ns, 0))
        (void)marks_write(p, stream);
}
