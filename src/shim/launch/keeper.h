/*
 * The keeper. Beside a service, a task's streams wait on the device, and its threads do not wait: a
 * delayed thread cannot run ahead of the device, which then idles between requests. The shim puts a
 * wait for the device's latch, a word of the status page, into each stream, about once per window
 * of work. The keeper, a thread of the shim, polls the services' marks, and shuts and opens the
 * latch (latch.h). When a service becomes busy, the device executes at most the rest of one window
 * of the task's work. The host may run LAUNCH_AHEAD_NS ahead, which is harmless if the process is
 * killed.
 *
 * No stream waits for ever. Only the keeper shuts the latch, for at most the time in the limits,
 * and the keeper never sleeps while the latch is shut. A process that ends opens the latch
 * permanently. A forked child has no keeper, but has its own page. If a process is killed, the
 * driver removes its streams.
 *
 * While all services sleep, that is, have had no work for KEEPER_SLEEP_NS, the keeper sleeps too,
 * on a futex that a service wakes at its next launch. Meanwhile streams contain fewer waits or none
 * (limits_device.calm_us): work that was launched before the service woke then delays its first
 * request.
 *
 * The thread starts at the first launch beside a service, and sleeps when launches cease or the
 * services have ended. If a device's streams cannot wait, or the thread does not start, threads
 * wait at the gate instead (gate.h).
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/launch/latch.h"

struct process;
struct stream;

#define KEEPER_SLEEP_NS UINT64_C(2000000000)

enum keeper_state { KEEPER_NEW = 0, KEEPER_STARTING, KEEPER_OFF, KEEPER_AWAKE, KEEPER_ASLEEP };

struct keeper {
    _Atomic uint32_t state;   /* enum keeper_state; the keeper sleeps on this word */
    _Atomic uint32_t is_over; /* the process ends: the latches stay open */
    _Atomic uint64_t asked;   /* number of waits put into streams */
    _Atomic uint64_t devices; /* bit i: streams of device i contain waits */
    /* Work between two waits of a stream while all services sleep; 0: a service is awake. */
    _Atomic uint64_t calm_ns;
    /* Each poll writes the fields below, so fields that launches read are on other cache lines. */
    _Alignas(64) struct latch latches[PAGE_DEVICES_MAX];
    struct gate_watch watches[PAGE_DEVICES_MAX]; /* slots that were busy when the latch was shut */
};

/* Returns whether the device's streams can wait, so that threads need not wait. Starts the keeper
 * if necessary. The calling thread needs a context. */
bool keeper_is_there_slowly(struct process *p);
static inline bool keeper_is_there(struct process *p, const struct keeper *keeper)
{
    return atomic_load_explicit(&keeper->state, memory_order_relaxed) >= KEEPER_AWAKE ||
           keeper_is_there_slowly(p);
}

/* Value of calm_ns: streams contain no waits. */
#define KEEPER_CALM_FREE UINT64_MAX

/* Call before a launch of cost_ns. Puts a wait into the stream if more than window_ns of work would
 * follow the last wait. Returns false if the driver refused. Not for a capturing stream. */
bool keeper_guard(struct process *p, struct stream *stream, uint64_t cost_ns, uint64_t window_ns);
/* Opens all latches permanently, since the process ends. Safe in a signal handler. */
void keeper_open(struct process *p);
/* Resets the state in a forked child. */
void keeper_reset(struct keeper *keeper);
