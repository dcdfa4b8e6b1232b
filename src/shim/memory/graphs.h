/*
 * Device memory that graphs allocate, from a hidden pool of the process on each device. The pool
 * takes memory when a graph is launched or uploaded, and releases the memory only on request. The
 * shim reads a graph's needs from its nodes when the graph is instantiated, and reserves the needed
 * bytes at the graph's launch, as for any pool (pools.h).
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "abi/cuda.h"
#include "shim/memory/allocations.h"
#include "shim/sys/lock.h"

struct process;

struct graphs_device {
    struct lock lock; /* protects a launch, with the reads before and after the launch */
    CUdevice device;
    _Atomic uint64_t counted_bytes;
};

/* All zero: no graph allocates. */
struct graphs {
    _Atomic uint32_t devices; /* bit i: graphs allocate on the device with index i (devices.h) */
    struct graphs_device on[PAGE_DEVICES_MAX];
    /* By handle plus index of the device. `bytes`: sum of all allocations of the graph; `value`:
     * largest sum at one time if the nodes run one after another. */
    struct allocations needs;
};
_Static_assert(PAGE_DEVICES_MAX <= 16, "handles are multiples of 16");

/* The reservations of a launch, between graphs_begin() and graphs_end(). */
struct graphs_ticket {
    uint32_t devices;
    uint64_t reserved_bytes[PAGE_DEVICES_MAX];
};

/* Call before the driver launches or uploads the graph. Returns false if the launch must fail with
 * CUDA_ERROR_OUT_OF_MEMORY. */
bool graphs_begin(struct process *p, CUgraphExec graph, struct graphs_ticket *ret_ticket);
/* Call after the driver's call, whatever its result. */
void graphs_end(struct process *p, const struct graphs_ticket *ticket);

/* Like pools_settle() and pools_let_go(), for the pools of graphs. */
bool graphs_settle(struct process *p);
bool graphs_let_go(struct process *p, int device);
/* Resets the state in a forked child. */
void graphs_reset(struct graphs *graphs);
