/*
 * Device memory that graphs allocate, from a hidden pool of the process on each device. It takes
 * memory when a graph is launched or uploaded, and gives it back only when it is told to. What a
 * graph may need is read from its nodes when it is made ready; at its launch that is reserved as
 * for any pool (pools.h).
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/hook/cuda_types.h"
#include "shim/memory/allocations.h"
#include "shim/sys/lock.h"

struct process;

struct graphs_device {
    struct lock lock; /* over a launch with what is read before and after it */
    CUdevice device;
    _Atomic uint64_t counted_bytes;
};

/* All zero: none allocates. */
struct graphs {
    _Atomic uint32_t devices; /* bit i: index of devices.h on which graphs allocate */
    struct graphs_device on[PAGE_DEVICES_MAX];
    /* By handle plus index: `bytes` of all its allocations, `value` the most of them at a time if
     * nodes run one after the other. */
    struct allocations needs;
};
_Static_assert(PAGE_DEVICES_MAX <= 16, "handles are multiples of 16");

/* Between graphs_begin() and graphs_end(). */
struct graphs_ticket {
    uint32_t devices;
    uint64_t reserved_bytes[PAGE_DEVICES_MAX];
};

/* Before the driver launches or uploads the graph. False: CUDA_ERROR_OUT_OF_MEMORY. */
bool graphs_begin(struct process *p, CUgraphExec graph, struct graphs_ticket *ret_ticket);
/* After it, with any result. */
void graphs_end(struct process *p, const struct graphs_ticket *ticket);

/* As pools_settle() and pools_let_go(), which call them. */
bool graphs_settle(struct process *p);
bool graphs_let_go(struct process *p, int device);
/* In a child. */
void graphs_reset(struct graphs *graphs);
