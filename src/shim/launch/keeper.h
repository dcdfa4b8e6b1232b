/*
 * The keeper: beside a service it is a task's streams that wait, on the device, and not its
 * threads: a host that is held cannot run ahead of its device, which then idles between requests
 * too. About a window's worth of work apart, each stream gets a wait for a word of the status page;
 * a thread of the shim, the keeper, watches the services' marks and shuts and opens the word
 * (latch.h). A service that becomes busy has the rest of one window's worth beside it; the host may
 * be LAUNCH_AHEAD_NS ahead, as much as is harmless when the process is killed.
 *
 * No device is left waiting for a word that nobody opens: only the keeper shuts it, and not while
 * it sleeps or for longer than the limits say; a process that ends opens it for good; a child,
 * which has no keeper, has a page of its own. A process that is killed leaves its word as it is,
 * and the driver takes its streams away.
 *
 * The thread comes with the first launch beside a service, and sleeps when launches cease or
 * services have gone. Where a device's streams cannot wait, or no thread is to be had, threads wait
 * at the gate instead (gate.h).
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/launch/latch.h"

struct process;
struct stream;

enum keeper_state { KEEPER_NEW = 0, KEEPER_STARTING, KEEPER_OFF, KEEPER_AWAKE, KEEPER_ASLEEP };

struct keeper {
    _Atomic uint32_t state;   /* enum keeper_state; it sleeps on this */
    _Atomic uint32_t is_over; /* the process ends: open for good */
    _Atomic uint64_t asked;   /* waits that were put into streams */
    _Atomic uint64_t devices; /* bit i: where */
    /* Each look writes them: what launches read is not to be beside them. */
    _Alignas(64) struct latch latches[PAGE_DEVICES_MAX];
    struct gate_watch watches[PAGE_DEVICES_MAX]; /* since the latch was shut */
};

/* Whether the device's streams can wait, so that a thread need not; starts what is needed for it.
 * Where the calling thread has a context. */
bool keeper_is_there_slowly(struct process *p);
static inline bool keeper_is_there(struct process *p, const struct keeper *keeper)
{
    return atomic_load_explicit(&keeper->state, memory_order_relaxed) >= KEEPER_AWAKE ||
           keeper_is_there_slowly(p);
}

/* Before a launch of so much: puts a wait into the stream if it is time for one. False if the
 * driver refused. Not if the stream captures. */
bool keeper_guard(struct process *p, struct stream *stream, uint64_t cost_ns, uint64_t window_ns);
/* Opens all for good: the process ends. Safe in a handler of a signal. */
void keeper_open(struct process *p);
/* In a child. */
void keeper_reset(struct keeper *keeper);
