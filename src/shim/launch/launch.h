/*
 * launch/ decides when work may start and measures it: the gate, the window, the rate and their
 * parts, with the hooks of calls that launch, copy, wait or capture. It uses sys/, hook/, life/ and
 * the size of an array (memory/array.h).
 *
 * Launches: what happens around each. A service's are marked (marks.h), so that tasks beside it see
 * when it is busy. A task's are held as its limits say, in this order: lease, rate, window, gate;
 * then charged, and marked for the window. Beside a service the gate is on the device where that is
 * possible (keeper.h): the small window is then what lies between two waits of a stream, and
 * threads are held by one of LAUNCH_AHEAD_NS. Nothing happens, but for counting, where limits ask
 * for nothing.
 *
 * Streams beyond those with a slot (streams.h) have no marks: a task's are held by lease, rate and
 * gate, and not by the window.
 *
 * Into a stream that captures nothing is launched: such calls pass.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/page.h"
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
    LAUNCH_AHEAD_NS = 20000000, /* outstanding: what is harmless when the process is killed */
    LAUNCH_NEW_PARTS = 2, /* of its window a launch of a new kernel is charged one, or its cost */
    LAUNCH_WINDOW_HOLD_NS_MAX = 1000000000, /* at the window, without progress */
    LAUNCH_COLLECTIVE_HOLD_NS = 2000000,    /* the longest hold while a collective is outstanding */
    LAUNCH_TICK_NS = 100000000,
    LAUNCH_CLOCK_TICKS = 1 << 22,    /* between two looks at the clock: 1 to 4 ms */
    LAUNCH_COPY_BYTES_MIN = 1 << 20, /* a copy of so much is held at the gate */
};

/* What the limits ask for on one device, and what follows. */
struct launch_device {
    _Alignas(64) _Atomic uint64_t slots; /* of the status page: its streams */
    _Atomic uint64_t window_ns;          /* 0: none */
    _Atomic uint64_t gate_ns, linger_ns;
    _Atomic uint32_t gate_place;     /* enum limits_gate_place */
    _Atomic uint32_t rate_permille;  /* 0: no limit */
    _Atomic uint32_t share_permille; /* of the SMs; its GPU time counts for so much */
    _Atomic uint32_t is_exact;       /* not alone: it matters what launches cost */
    _Atomic uint32_t is_prepaid;     /* nothing but the window can hold a launch (quick.h) */
    /* Each launch writes it: what the keeper reads all the time is not to be beside it. */
    _Alignas(64) struct window window;
    struct rate rate;
};

struct launch {
    /* What every launch reads, in a line of the cache. */
    _Atomic uint64_t sequence; /* of the limits that the following says, and 1; 0: of none */
    _Atomic uint32_t is_armed; /* there is something to do */
    _Atomic uint32_t is_service;
    _Atomic uint64_t looked_ticks; /* when the clock was read last */
    struct cost_pace pace;
    _Atomic uint32_t captures; /* open in this process */
    _Atomic uint32_t sole;     /* slot of the only context's default stream, and 1; 0: not known */
    _Atomic uint64_t tick_ns;  /* when to look at slow things again */
    _Atomic uint32_t has_raised; /* SIGTERM, after the lease's end */
    struct lock reading;         /* of the limits */
    struct launch_device devices[PAGE_DEVICES_MAX];
    struct streams streams;
    struct marks marks;
    struct gate gate;
    struct keeper keeper;
    struct collectives collectives;
    struct costs costs;
};
_Static_assert(offsetof(struct launch, devices) == 64,
               "what is before them is a line of the cache");

/* The record of a stream, as far as it takes no driver to find it. NULL: maybe it does. Not for a
 * call for which stream 0 is the thread's own. */
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

/* One launch, from launch_begin() to launch_end(). */
struct launch_ticket {
    struct stream *stream; /* NULL: nothing is to be done at its end */
    struct cost_timing *timing;
    uint64_t cost_ns;   /* as far as it is known */
    uint64_t charge_ns; /* to the window: at least all of it while the cost is not known */
    uint64_t window_ns; /* that holds threads; 0: none */
    bool is_graph, is_collective;
    bool may_prepay;     /* launches like it can be quick ones (quick.h) */
    uint32_t prepaid_ns; /* in charge_ns, for these */
    CUstream handle;     /* theirs, too */
};

/* Reads the limits if they have changed; whether launches need more than counting. */
bool launch_is_armed_slowly(struct process *p);
/* Holds the launch as long as it must be, and charges it. */
void launch_begin(struct process *p, const struct cost_launch *launch, CUstream handle,
                  bool is_per_thread, struct launch_ticket *ret_ticket);
void launch_end(struct process *p, struct launch_ticket *ticket);
/* Before a copy of a task: holds a large one. Of a service: it has begun something. */
void launch_copy(struct process *p, uint64_t bytes, CUstream handle, bool is_per_thread,
                 bool is_to_device);
/* Before the program waits for the device, or can learn that it is done. */
void launch_wait(struct process *p);
/* A collective waits for other processes, which may wait for what would be held here: one is
 * outstanding there. */
bool launch_has_collective(struct process *p, int device);
/* GPU time outstanding on all devices, as far as there are marks for it: 0 is all done. */
uint64_t launch_outstanding_ns(struct process *p);
/* In a child. */
void launch_reset(struct launch *launch);
