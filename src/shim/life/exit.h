/*
 * The process's end. A client of MPS that dies with much work outstanding takes its neighbours with it, so a process
 * that launches must not: launches stop, what is outstanding is waited for, at most EXIT_DRAIN_MS, and then it ends as it
 * would have.
 *
 *   a signal's default action   The shim's handler stands in for it (signals.h). It says that the process is closing,
 *                               wakes the shim's thread and waits a moment: that is the end, unless it interrupted
 *                               the thread inside the driver, which must then go on. The thread drains, and raises
 *                               the signal again with its default action. A second signal ends the process at once; one that
 *                               comes with the first, as when a group and its leader are sent one each, is no second.
 *   the program's own handler   runs at once, and may launch: it is the program's.
 *   exit, quick_exit, _exit     wait for the thread to drain. Launches of other threads are held meanwhile and not
 *                               afterwards: the program may be waiting for these threads.
 *   a crash, SIGKILL            are not to be had. The window keeps them harmless (algorithm of the launches).
 *
 * What would outlast that is ended by the agent, which sees in the status page that the process drains, and has MPS end its
 * work (node/protect/protect.c).
 *
 * No handler calls the driver, and contexts are not destroyed. The thread comes with the first launch: a process that
 * launches nothing has neither thread nor handlers. It has every signal blocked.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct process;

enum {
    EXIT_DRAIN_MS = 1500,
    EXIT_PAUSE_MS = 100, /* of a handler that may have interrupted a driver's lock */
    EXIT_SAME_MS = 300, /* signals within are one; a handler may have to wait for another's pause */
};

enum exit_state {
    EXIT_NEW = 0,
    EXIT_STARTING,
    EXIT_OFF, /* no thread is to be had, and nothing is drained */
    EXIT_OPEN,
    EXIT_DRAINING, /* the program exits */
    EXIT_CLOSING,  /* a signal ends it */
};

struct exit {
    _Atomic uint32_t state;         /* enum exit_state; launches wait for it to change */
    _Atomic int32_t process;        /* whose thread there is; 0: none */
    _Atomic uint32_t asked, done;   /* drains: those whom it may concern wait for these to change */
    _Atomic uint32_t signal;        /* that ends it; 0: none */
    _Atomic uint64_t signal_ms;     /* when it came */
    _Atomic uint32_t is_registered; /* with the C library, to be called by exit */
};

void exit_check_slowly(struct process *p);
/* Before a launch: it is held if the process ends. */
static inline void exit_check(struct process *p, const struct exit *exit)
{
    if (__builtin_expect(atomic_load_explicit(&exit->state, memory_order_acquire) != EXIT_OPEN, 0))
        exit_check_slowly(p);
}
/* Before a context is destroyed: the same. */
void exit_hold(struct process *p);
/* In a child. */
void exit_reset(struct exit *exit);
