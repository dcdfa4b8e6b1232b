/*
 * The window: how much GPU time a task may have outstanding on a device. Each launch is charged its
 * cost, and the marks (marks.h) say what of that is done. A launch fits if all that is outstanding
 * stays within the window. It also does if so little is left to be done that the device would run
 * dry before it comes: else a kernel longer than the window could never be launched, and one about
 * as long would leave gaps. How much is left between two marks is estimated from the time since the
 * last; a wrong estimate lets one launch in too early, never two, because what is outstanding
 * without it must be within the window. Of threads that find the same room one gets it: it is
 * charged by whoever finds what was charged unchanged.
 *
 * The usual case reads nothing that the device writes: what is outstanding is at most what was
 * charged since someone looked, and one looks when that is no longer enough to know.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/launch/streams.h"

enum {
    WINDOW_MARKS = 2,      /* in a window's worth of work */
    WINDOW_DRY_NS = 20000, /* a launch takes about so long to reach the device */
    WINDOW_DRY_PARTS = 4,  /* and of a small window not more than this part */
    WINDOW_HOLD_TIMES =
        2, /* the longest hold without progress: so many times the window, or what is outstanding */
};

struct window {
    _Atomic uint64_t charged_ns; /* what was let in */
    _Atomic uint64_t begun_ns;   /* of that, what `started` of the streams has */
    _Atomic uint64_t done_ns;    /* of the charged, as last seen */
};

/* What is outstanding in the slots of the bits; marks (marks.h) are what completes it. */
uint64_t window_outstanding(const struct status_page *status, const struct streams *streams,
                            uint64_t slots);
/* Stops waiting for what is outstanding there: its marks seem to be lost. If one comes after all
 * they are not, and what is behind it counts again. And for what is charged and not begun, whose
 * thread may be no more. */
void window_give_up(struct window *window, const struct status_page *status,
                    struct streams *streams, uint64_t slots);

/* All that was launched into the stream up to there is done, whether there is a mark behind it or
 * not. */
void window_note_done(const struct status_page *status, struct stream *stream, uint64_t launched);

/* left_ns: what is estimated to be left of what is outstanding. */
static inline bool window_fits(uint64_t window_ns, uint64_t outstanding_ns, uint64_t left_ns,
                               uint64_t cost_ns)
{
    uint64_t dry_ns = window_ns / WINDOW_DRY_PARTS;
    if (dry_ns > WINDOW_DRY_NS)
        dry_ns = WINDOW_DRY_NS;
    return outstanding_ns + cost_ns <= window_ns ||
           (outstanding_ns <= window_ns && left_ns <= dry_ns);
}

static inline void window_charge(struct window *window, uint64_t cost_ns)
{
    atomic_fetch_add_explicit(&window->charged_ns, cost_ns, memory_order_relaxed);
}

/* What was charged is not launched yet. */
static inline void window_put_back(struct window *window, uint64_t cost_ns)
{
    atomic_fetch_sub_explicit(&window->charged_ns, cost_ns, memory_order_relaxed);
}

/* `started` has it. */
static inline void window_note_begun(struct window *window, uint64_t cost_ns)
{
    atomic_fetch_add_explicit(&window->begun_ns, cost_ns, memory_order_release);
}

/* Charges it if it fits, without looking: false means that one must look. */
static inline bool window_take(struct window *window, uint64_t window_ns, uint64_t cost_ns)
{
    uint64_t charged = atomic_load_explicit(&window->charged_ns, memory_order_relaxed);
    uint64_t outstanding;
    do {
        uint64_t done = atomic_load_explicit(&window->done_ns, memory_order_relaxed);
        outstanding = charged > done ? charged - done : 0;
        if (!window_fits(window_ns, outstanding, outstanding, cost_ns))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&window->charged_ns, &charged,
                                                    charged + cost_ns, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

struct window_view {
    uint64_t outstanding_ns; /* with what is charged and not begun; a launch that begins meanwhile
                                may be in it twice */
    uint64_t charged_ns;
};

/* Looks, and remembers what it saw. */
static inline struct window_view window_look(struct window *window,
                                             const struct status_page *status,
                                             const struct streams *streams, uint64_t slots)
{
    /* In this order: whatever is charged when the last is read is in one of the others. */
    uint64_t begun = atomic_load_explicit(&window->begun_ns, memory_order_acquire);
    uint64_t outstanding = window_outstanding(status, streams, slots);
    uint64_t charged = atomic_load_explicit(&window->charged_ns, memory_order_acquire);
    if (charged > begun)
        outstanding += charged - begun;
    if (charged >= outstanding)
        atomic_store_explicit(&window->done_ns, charged - outstanding, memory_order_relaxed);
    return (struct window_view){.outstanding_ns = outstanding, .charged_ns = charged};
}

/* Charges what fits by that view. False: somebody else did meanwhile. */
static inline bool window_take_seen(struct window *window, struct window_view view,
                                    uint64_t cost_ns)
{
    return atomic_compare_exchange_strong(&window->charged_ns, &view.charged_ns,
                                          view.charged_ns + cost_ns);
}
