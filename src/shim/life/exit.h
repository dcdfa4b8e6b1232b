/*
 * The end of the process. If an MPS client dies with much outstanding work, its neighbours die too.
 * The shim therefore drains a process that ends: the shim stops launches and waits for outstanding
 * work, at most EXIT_DRAIN_MS. Then the process ends as without the shim.
 *
 *   a signal's default action   The shim's handler replaces the action (signals.h). The handler
 *                               marks the process as closing, wakes the shim's thread and pauses:
 *                               an interrupted thread inside the driver must continue. The shim's
 *                               thread drains the process, and raises the signal again with its
 *                               default action. A second signal ends the process at once, except
 *                               within EXIT_SAME_MS of the first: senders often signal a group and
 *                               its leader.
 *   the program's own handler   The handler runs at once and may launch.
 *   exit, quick_exit, _exit     The call waits until the shim's thread has drained the process.
 *                               Launches of other threads wait too and continue afterwards, since
 *                               the program may wait for these threads.
 *   a crash, SIGKILL            Crashes and SIGKILL cannot be intercepted; the window bounds the
 *                               damage (window.h).
 *
 * If work outlasts the drain, the agent ends the work: the status page shows that the process
 * drains, and the agent has MPS terminate the work (node/protect/protect.c).
 *
 * No handler calls the driver, and the shim destroys no context. The shim's thread starts with the
 * first launch and has every signal blocked; a process that launches nothing has neither thread nor
 * handlers.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

struct process;

enum {
    EXIT_DRAIN_MS = 1500,
    /* Pause of a handler, which may have interrupted a thread inside a lock of the driver. */
    EXIT_PAUSE_MS = 100,
    /* Signals within this time count as one; one handler's pause may delay another handler. */
    EXIT_SAME_MS = 300,
};

enum exit_state {
    EXIT_NEW = 0,
    EXIT_STARTING,
    EXIT_OFF, /* the thread could not be started; the process ends without draining */
    EXIT_OPEN,
    EXIT_DRAINING, /* the program calls exit */
    EXIT_CLOSING,  /* a signal ends the process */
};

struct exit {
    _Atomic uint32_t state;  /* enum exit_state; delayed launches wait for a change */
    _Atomic int32_t process; /* process that the shim's thread belongs to; 0: no thread */
    /* Numbers of requested and of completed drains; waiting threads sleep on these words. */
    _Atomic uint32_t asked, done;
    _Atomic uint32_t signal;        /* signal that ends the process; 0: none */
    _Atomic uint64_t signal_ms;     /* time of that signal */
    _Atomic uint32_t is_registered; /* at_exit is registered with the C library */
};

void exit_check_slowly(struct process *p);
/* Call before a launch. Delays the launch while the process ends. */
static inline void exit_check(struct process *p, const struct exit *exit)
{
    if (__builtin_expect(atomic_load_explicit(&exit->state, memory_order_acquire) != EXIT_OPEN, 0))
        exit_check_slowly(p);
}
/* Call before a context is destroyed. Waits while the process ends. */
void exit_hold(struct process *p);
/* Resets the state in a forked child. */
void exit_reset(struct exit *exit);
