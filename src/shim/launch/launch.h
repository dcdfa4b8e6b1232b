/*
 * launch/ decides when work may start and measures the cost of work: the gate, the window, the rate
 * and their parts, with the hooks of calls that launch, copy, wait or capture. launch/ uses sys/,
 * hook/, life/ and the element size of arrays (memory/array.h).
 *
 * This header declares the steps around each launch. The shim marks a service's launches (marks.h),
 * so that co-located tasks see when the service is busy. The shim delays a task's launch as the
 * limits require, in the order lease, rate, window, gate. Then the shim charges the launch to the
 * window and marks the launch. Beside a service, streams wait on the device where possible, instead
 * of threads at the gate (keeper.h). The small window then limits the work between two waits of a
 * stream, and the window that delays threads is LAUNCH_AHEAD_NS. Without limits, the shim only
 * counts launches.
 *
 * Streams without a slot (streams.h) have no marks: their launches wait for lease, rate and gate,
 * but not for the window. Launches into a capturing stream pass: they execute nothing.
 *
 * This folder contains the code that delays launches and measures their costs. Files of the folder
 * shim/launch may include abi, shim/sys, shim/hook, shim/life.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/launch/bursts.h"
#include "shim/launch/collective.h"
#include "shim/launch/cost.h"
#include "shim/launch/gate.h"
#include "shim/launch/keeper.h"
#include "shim/launch/marks.h"
#include "shim/launch/rate.h"
#include "shim/launch/streams.h"
#include "shim/launch/window.h"
#include "shim/sys/lock.h"

struct process;

enum {
    /* Largest outstanding GPU time that is harmless if the process is killed. */
    LAUNCH_AHEAD_NS = 20000000,
    /* A launch of a new kernel is charged at least 1 / LAUNCH_NEW_PARTS of the window. */
    LAUNCH_NEW_PARTS = 2,
    LAUNCH_WINDOW_HOLD_NS_MAX = 1000000000, /* longest wait for the window without progress */
    LAUNCH_COLLECTIVE_HOLD_NS = 2000000,    /* longest delay while a collective is outstanding */
    LAUNCH_TICK_NS = 100000000,
    LAUNCH_CLOCK_TICKS = 1 << 22,    /* ticks between two readings of the clock: 1 to 4 ms */
    LAUNCH_COPY_BYTES_MIN = 1 << 20, /* smallest copy that waits at the gate */
};

/* The limits of one device, and the values derived from them. */
struct launch_device {
    _Alignas(64) _Atomic uint64_t slots; /* bit i: slot i belongs to a stream of the device */
    _Atomic uint64_t window_ns;          /* 0: no window */
    _Atomic uint64_t gate_ns, linger_ns;
    _Atomic uint32_t need_us, each_us, burst_us; /* of the gate's rule DUE */
    _Atomic uint8_t gate_rule;                   /* enum limits_gate_rule */
    _Atomic uint8_t gate_place;                  /* enum limits_gate_place */
    _Atomic uint32_t rate_permille;              /* 0: no limit */
    _Atomic uint32_t share_permille; /* part of the SMs, by which GPU time is weighted */
    _Atomic uint32_t is_exact;       /* exact costs are needed: for a rate, gate or small window */
    /* Every launch writes the window; its cache line must contain nothing that the keeper polls. */
    _Alignas(64) struct window window;
    struct rate rate;
};

struct launch {
    /* Fields that every launch reads, in one cache line. */
    /* limits_page.sequence of the limits below, plus 1; 0: none read yet. */
    _Atomic uint64_t sequence;
    _Atomic uint32_t is_armed; /* some limit needs action at launches */
    _Atomic uint32_t is_service;
    _Atomic uint64_t looked_ticks; /* clock_ticks() of the latest reading of the clock */
    struct cost_pace pace;
    _Atomic uint32_t captures;   /* open captures of this process */
    _Atomic uint32_t sole;       /* slot of the only context's default stream, plus 1; 0: unknown */
    _Atomic uint64_t tick_ns;    /* time of the next check of agent and lease */
    _Atomic uint32_t has_raised; /* SIGTERM was sent after the lease expired */
    struct lock reading;         /* protects the reading of the limits */
    struct launch_device devices[PAGE_DEVICES_MAX];
    struct streams streams;
    struct marks marks;
    struct gate gate;
    struct keeper keeper;
    struct bursts bursts;
    struct collectives collectives;
    struct costs costs;
};
_Static_assert(offsetof(struct launch, devices) == 64, "fields before `devices` fill a cache line");

/* Returns the record of a stream if the search needs no call of the driver; otherwise NULL. Not for
 * calls in which stream 0 is the per-thread default stream. */
static inline struct stream *launch_known_stream(struct launch *launch, CUstream handle)
{
    struct streams *streams = &launch->streams;
    uint64_t key = (uint64_t)(uintptr_t)handle;
    if (key > (uintptr_t)STREAM_PER_THREAD) {
        uint32_t slot =
            atomic_load_explicit(&streams->cache[streams_place(key)], memory_order_relaxed);
        struct stream *stream = &streams->slots[slot];
        return atomic_load_explicit(&stream->key, memory_order_acquire) == key ? stream : NULL;
    }
    uint32_t sole = atomic_load_explicit(&launch->sole, memory_order_relaxed);
    if (sole == 0 || handle == STREAM_PER_THREAD)
        return NULL;
    struct stream *stream = &streams->slots[sole - 1];
    return streams_is_default(atomic_load_explicit(&stream->key, memory_order_acquire)) ? stream
                                                                                        : NULL;
}

/* The state of one launch, from launch_begin() to launch_end(). */
struct launch_ticket {
    struct stream *stream; /* NULL: nothing to do after the launch */
    struct cost_timing *timing;
    uint64_t cost_ns; /* cost by earlier measurements */
    /* Time charged to the window; at least the whole window while the cost is unknown. */
    uint64_t charge_ns;
    uint64_t window_ns; /* window that delays threads; 0: none */
    bool is_graph, is_collective;
};

/* Reads the limits if they have changed. Returns whether launches need more than counting. */
bool launch_is_armed_slowly(struct process *p);
/* Delays the launch as the limits require, and charges the launch to the window. */
void launch_begin(struct process *p, const struct cost_launch *launch, CUstream handle,
                  bool is_per_thread, struct launch_ticket *ret_ticket);
void launch_end(struct process *p, struct launch_ticket *ticket);
/* Call before a copy. Delays a large copy of a task; marks a service as busy. */
void launch_copy(struct process *p, uint64_t bytes, CUstream handle, bool is_per_thread,
                 bool is_to_device);
/* Call before the program waits for the device, or may learn that work is done. */
void launch_wait(struct process *p);
/* Returns whether a collective is outstanding on the device: a collective waits for other
 * processes, which may wait for work that the shim would delay here. */
bool launch_has_collective(struct process *p, int device);
/* Call after the program has waited for the device, or has learned that work is done. */
void launch_waited(struct process *p);
/* Returns the rule by which the gate of the device shuts; NULL: while a service is busy. */
const struct due_rule *launch_rule(const struct launch_device *device, struct due_rule *rule);
/* Returns the outstanding GPU time of all devices in streams with marks; 0: none. */
uint64_t launch_outstanding_ns(struct process *p);
/* Resets the state in a forked child. */
void launch_reset(struct launch *launch);
