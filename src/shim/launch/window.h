/*
 * The window: the GPU time that each process of a task may have outstanding on a device. The shim
 * charges the cost of each launch to the window, and marks (marks.h) report completed work.
 *
 * A launch fits if all outstanding work, including the launch, stays within the window. A launch
 * also fits if the remaining work would run out before the launch reaches the device: otherwise a
 * kernel longer than the window could never start, and a kernel of about that length would leave
 * gaps. The remaining work between two marks is estimated from the time since the latest mark; a
 * wrong estimate admits one launch too early, never two, because the outstanding work without the
 * launch must still be within the window. If several threads see room for a launch, only the thread
 * whose compare-and-swap of the charged time succeeds may launch; the others retry.
 *
 * In the usual case the shim reads no memory that the device writes. The time charged since the
 * last read of the marks bounds the outstanding work; the shim reads the marks only when that bound
 * is too high.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/launch/streams.h"

enum {
    WINDOW_MARKS = 2,      /* marks per window of work */
    WINDOW_DRY_NS = 20000, /* approximate time that a launch takes to reach the device */
    WINDOW_DRY_PARTS = 4,  /* divisor: limits that time to a part of the window */
    /* Longest wait without progress, in windows or multiples of the outstanding work. */
    WINDOW_HOLD_TIMES = 2,
};

struct window {
    _Atomic uint64_t charged_ns; /* time charged for admitted launches */
    _Atomic uint64_t begun_ns;   /* part of charged_ns that is in `started` of the streams */
    _Atomic uint64_t done_ns;    /* part of charged_ns that was completed at the last read */
};

/* Returns the outstanding work in the slots of the bit mask. */
uint64_t window_outstanding(const struct status_page *status, const struct streams *streams,
                            uint64_t slots);
/* Treats the outstanding work in the slots as completed, since its marks seem to be lost. Also
 * treats charged work that never started as completed, since its thread may have ended. If a mark
 * arrives later, the work after that mark counts again. */
void window_give_up(struct window *window, const struct status_page *status,
                    struct streams *streams, uint64_t slots);

/* Notes that all work up to `launched` is done in the stream, even without a mark. */
void window_note_done(const struct status_page *status, struct stream *stream, uint64_t launched);

/* Returns whether a launch fits. left_ns: estimate of the work that the device has not done yet. */
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

/* Removes the charge of a launch that was not made yet. */
static inline void window_put_back(struct window *window, uint64_t cost_ns)
{
    atomic_fetch_sub_explicit(&window->charged_ns, cost_ns, memory_order_relaxed);
}

/* Notes that `started` of the stream includes the launch. */
static inline void window_note_begun(struct window *window, uint64_t cost_ns)
{
    atomic_fetch_add_explicit(&window->begun_ns, cost_ns, memory_order_release);
}

/* Charges the launch if it surely fits. Returns false if the marks must be read. */
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
    /* Outstanding work, including launches that are charged but not started. A launch that starts
     * meanwhile may be counted twice. */
    uint64_t outstanding_ns;
    uint64_t charged_ns;
};

/* Reads the outstanding work, and stores the result for window_take(). */
static inline struct window_view window_look(struct window *window,
                                             const struct status_page *status,
                                             const struct streams *streams, uint64_t slots)
{
    /* In this order all charged work counts: as outstanding in its stream, or as charged but not
     * begun. */
    uint64_t begun = atomic_load_explicit(&window->begun_ns, memory_order_acquire);
    uint64_t outstanding = window_outstanding(status, streams, slots);
    uint64_t charged = atomic_load_explicit(&window->charged_ns, memory_order_acquire);
    if (charged > begun)
        outstanding += charged - begun;
    if (charged >= outstanding)
        atomic_store_explicit(&window->done_ns, charged - outstanding, memory_order_relaxed);
    return (struct window_view){.outstanding_ns = outstanding, .charged_ns = charged};
}

/* Charges a launch that fits into the window by `view`; the caller has tested the fit. Returns
 * false if another thread charged a launch after window_look() returned `view`. */
static inline bool window_take_seen(struct window *window, struct window_view view,
                                    uint64_t cost_ns)
{
    return atomic_compare_exchange_strong(&window->charged_ns, &view.charged_ns,
                                          view.charged_ns + cost_ns);
}
