/*
 * life/ handles the process from its first CUDA call to its end: the state of the process, its
 * limits, its agent and its end. life/ uses sys/ and hook/; this header alone also uses memory/ and
 * launch/, since the state contains their parts.
 *
 * struct process is the shim's state in a process, and the only writable global of the library.
 * Loading the library does nothing; the first call of the driver starts the shim.
 *
 *   new ──first call──▶ starting ──▶ ready     limits are known, hooks act
 *    ▲                      │
 *    │                      ├──▶ passive       GPUMUX_DISABLE=1: hooks only pass calls on
 *    │                      └──▶ refused       limits were promised but are not available
 *    └── fork: the child is a process of its own, and registers again at its first call
 *
 * Failures. Without a driver, hooks return CUDA_ERROR_STUB_LIBRARY, and the next call retries. If
 * an agent was promised (GPUMUX_REGISTER) and does not answer, the limits of the environment apply.
 * Without limits in the environment, every hook that grants something returns
 * CUDA_ERROR_SYSTEM_NOT_READY. After any other failure, the shim counts the failure and continues
 * with less protection, without harm to the process.
 *
 * This folder contains the code for the start and the end of the process, and for the connection to
 * its agent. Files of the folder shim/life may include abi, shim/sys, shim/hook.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/page.h"
#include "abi/pages.h"
#include "shim/hook/calls.h"
#include "shim/hook/libraries.h"
#include "shim/launch/launch.h"
#include "shim/life/busy.h"
#include "shim/life/client.h"
#include "shim/life/devices.h"
#include "shim/life/exit.h"
#include "shim/life/signals.h"
#include "shim/memory/allocations.h"
#include "shim/memory/chunks.h"
#include "shim/memory/context.h"
#include "shim/memory/graphs.h"
#include "shim/memory/mappings.h"
#include "shim/memory/nvml.h"
#include "shim/memory/pools.h"
#include "shim/memory/swap.h"

enum process_state {
    PROCESS_NEW = 0,
    PROCESS_STARTING,
    PROCESS_PASSIVE,
    PROCESS_REFUSED,
    PROCESS_READY,
};

enum { PROCESS_ENTRIES = 2 }; /* dlsym, dlvsym */

struct process {
    /* Fields that every launch reads, in one cache line. */
    /* enum process_state; while starting, also the process and the thread that start the shim. */
    _Alignas(64) _Atomic uint64_t state;
    struct launch *launch;         /* valid while READY; a separate mapping, never unmapped */
    _Atomic uint32_t is_swappable; /* memory can move (swap.h); fixed while READY */
    struct client client;          /* valid while READY */
    _Atomic uint64_t refused_ns; /* time of the latest refusal; the shim retries once per second */
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
    struct chunks chunks;
    struct swap swap;
    struct nvml nvml;
    struct busy busy;
    struct signals signals;
    struct exit exit;
    struct gpumux_pages pages; /* valid while READY; for other libraries of the process */
};
_Static_assert(offsetof(struct process, client.neighbours.pages) <= 64,
               "a launch reads no more of the client");

extern struct process the_process __attribute__((visibility("hidden")));

/* Starts the shim, or waits for the thread that starts the shim. */
struct process *process_enter_slowly(void);

/* Returns the process. Every hook begins with this call. Afterwards the state is READY, PASSIVE or
 * REFUSED, unless the process has no driver, or the calling thread is starting the shim. */
static inline struct process *process_enter(void)
{
    struct process *p = &the_process;
    if (__builtin_expect(atomic_load_explicit(&p->state, memory_order_acquire) != PROCESS_READY, 0))
        return process_enter_slowly();
    return p;
}

/* Returns whether hooks count, limit and delay calls. Otherwise hooks only call the driver. */
static inline bool process_is_ready(const struct process *p)
{
    return __builtin_expect(atomic_load_explicit(&p->state, memory_order_acquire) == PROCESS_READY,
                            1);
}

/* Returns whether hooks that grant something must fail with CUDA_ERROR_SYSTEM_NOT_READY. */
static inline bool process_is_refused(const struct process *p)
{
    return atomic_load_explicit(&p->state, memory_order_relaxed) == PROCESS_REFUSED;
}

/* Returns whether the process started with GPUMUX_DISABLE=1 in its environment. */
bool process_is_disabled(void);

/* Adds n to a counter of the status page. Returns the counter's earlier value. */
static inline uint64_t process_count(struct process *p, enum status_counter counter, uint64_t n)
{
    return atomic_fetch_add_explicit(&p->client.status->counters[counter], n, memory_order_relaxed);
}

/* Returns whether the shim delays, marks or charges launches; if not, the shim only counts
 * launches. The process must be ready. */
static inline bool process_guards_launches(struct process *p)
{
    if (__builtin_expect(atomic_load_explicit(&p->client.limits->sequence, memory_order_relaxed) +
                                 1 !=
                             atomic_load_explicit(&p->launch->sequence, memory_order_relaxed),
                         0))
        return launch_is_armed_slowly(p);
    return atomic_load_explicit(&p->launch->is_armed, memory_order_relaxed) != 0;
}

/* Call around each call of the driver that could start work or change memory. Waits while memory is
 * not on the device. Returns false if the call must fail with CUDA_ERROR_DEINITIALIZED, without
 * swap_leave(). */
static inline bool swap_enter(struct process *p)
{
    return __builtin_expect(atomic_load_explicit(&p->is_swappable, memory_order_relaxed) == 0, 1) ||
           swap_enter_slowly(p);
}

static inline void swap_leave(struct process *p)
{
    if (__builtin_expect(atomic_load_explicit(&p->is_swappable, memory_order_relaxed) != 0, 0))
        swap_leave_slowly(p);
}
