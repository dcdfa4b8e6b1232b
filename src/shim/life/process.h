/*
 * life/ is the process from its first CUDA call to its end: the one state, what it knows of its agent, and how it ends. It uses
 * sys/ and hook/; this header alone also uses memory/ and launch/, for the state holds their parts.
 *
 * What the shim keeps of the process that it is loaded into: the one writable global of the library.
 * Nothing happens when it is loaded; the first call of the driver starts it.
 *
 *   new ──first call──▶ starting ──▶ ready     limits are known, hooks act
 *    ▲                      │
 *    │                      ├──▶ passive       GPUMUX_DISABLE=1: hooks hand on, nothing else
 *    │                      └──▶ refused       there should be limits and nobody says which
 *    └── fork: the child is a process of its own, and registers anew at its first call
 *
 * How the shim fails is decided here and nowhere else. No driver: CUDA_ERROR_STUB_LIBRARY, and the next
 * call looks again. An agent was promised (GPUMUX_REGISTER) and does not answer: the limits of the
 * environment if it names any, else every hook that grants something answers
 * CUDA_ERROR_SYSTEM_NOT_READY. Anything else that fails costs a protection and is counted, never the process.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/hook/calls.h"
#include "shim/hook/libraries.h"
#include "shim/launch/launch.h"
#include "shim/launch/quick.h"
#include "shim/life/busy.h"
#include "shim/life/client.h"
#include "shim/life/devices.h"
#include "shim/life/exit.h"
#include "shim/life/signals.h"
#include "shim/memory/allocations.h"
#include "shim/memory/context.h"
#include "shim/memory/graphs.h"
#include "shim/memory/mappings.h"
#include "shim/memory/nvml.h"
#include "shim/memory/pools.h"

enum process_state {
    PROCESS_NEW = 0,
    PROCESS_STARTING,
    PROCESS_PASSIVE,
    PROCESS_REFUSED,
    PROCESS_READY,
};

enum { PROCESS_ENTRIES = 2 }; /* dlsym, dlvsym */

struct process {
    struct quick quick;
    /* What every other launch reads, within a line of the cache. */
    _Alignas(64) _Atomic uint64_t
        state;             /* enum process_state; while it starts, also who does so (process.c) */
    struct launch *launch; /* READY: it is there; a mapping of its own, kept for good */
    struct client client;  /* READY: it is there */
    _Atomic uint64_t refused_ns; /* when: it is tried again now and then */
    _Atomic uint32_t has_fork_handler;
    struct libraries libraries;
    _Atomic(void *) behind_entry[PROCESS_ENTRIES];
    struct calls calls;
    struct devices devices;
    struct allocations allocations;
    struct contexts contexts;
    struct mappings mappings;
    struct pools pools;
    struct graphs graphs;
    struct nvml nvml;
    struct busy busy;
    struct signals signals;
    struct exit exit;
};
_Static_assert(offsetof(struct process, client.neighbours.pages) <= QUICK_PAGE_BYTES + 64,
               "a launch reads no more of the client");

extern struct process the_process __attribute__((visibility("hidden")));

/* For hooks that are not of the usual case: starts, waits for the thread that does, or takes up after a fork. */
struct process *process_enter_slowly(void);

/* What every hook begins with. The process is in no state but READY, PASSIVE or REFUSED afterwards, unless
 * there is no driver, or this very thread is the one that starts it. */
static inline struct process *process_enter(void)
{
    struct process *p = &the_process;
    if (__builtin_expect(atomic_load_explicit(&p->state, memory_order_acquire) != PROCESS_READY, 0))
        return process_enter_slowly();
    return p;
}

/* Whether hooks act: count, limit, hold. If not they hand their call on. */
static inline bool process_is_ready(const struct process *p)
{
    return __builtin_expect(atomic_load_explicit(&p->state, memory_order_acquire) == PROCESS_READY,
                            1);
}

/* For hooks that grant something: it is to be refused, with CUDA_ERROR_SYSTEM_NOT_READY. */
static inline bool process_is_refused(const struct process *p)
{
    return atomic_load_explicit(&p->state, memory_order_relaxed) == PROCESS_REFUSED;
}

/* GPUMUX_DISABLE=1 in the environment that the process started with. */
bool process_is_disabled(void);

/* Counts, in the status page; returns how many there were before. */
static inline uint64_t process_count(struct process *p, enum status_counter counter, uint64_t n)
{
    return atomic_fetch_add_explicit(&p->client.status->counters[counter], n, memory_order_relaxed);
}

/* Whether launches are to be held, marked or charged; if not they are only counted. The process is ready. */
static inline bool process_guards_launches(struct process *p)
{
    if (__builtin_expect(atomic_load_explicit(&p->client.limits->sequence, memory_order_relaxed) +
                                 1 !=
                             atomic_load_explicit(&p->launch->sequence, memory_order_relaxed),
                         0))
        return launch_is_armed_slowly(p);
    return atomic_load_explicit(&p->launch->is_armed, memory_order_relaxed) != 0;
}
