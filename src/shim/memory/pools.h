/*
 * Memory pools under the quota. A pool holds memory of its own and lends pieces of it; what counts
 * is what it holds, which only the driver knows. It is asked after an allocation, which may have
 * made that more, and where it may have become less: when the program synchronises, asks what is
 * free, or runs out. Before an allocation, what the pool may have to take from the device for it is
 * reserved, in the driver's pieces of 32 MiB. Graphs allocate from a hidden pool a device, which is
 * treated the same (graphs.h).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "shim/hook/cuda_types.h"
#include "shim/sys/lock.h"

struct process;

enum { POOLS_MAX = 256 }; /* of a process, at a time; no more are created */

#define POOLS_PIECE_BYTES (UINT64_C(32) << 20)

struct pool {
    struct lock lock; /* over a call of the driver with what is read before and after it */
    _Atomic(CUmemoryPool) handle; /* NULL: a free place */
    int device; /* index of devices.h; negative: it is on no device, and not counted */
    _Atomic uint64_t counted_bytes;
    uint64_t used_bytes_max;      /* that it lends: under the lock, and read anew when it matters */
    _Atomic uint64_t piece_count; /* that it lends */
    _Atomic uint32_t is_destroyed; /* by the program; it stays until the last piece is freed */
};

/* All zero: none is known. */
struct pools {
    struct lock lock;       /* for a pool to come or go */
    _Atomic uint32_t count; /* places that were ever taken */
    struct pool places[POOLS_MAX];
};

/* What a pool may have to take from the device for `bytes` more, when it holds `reserved` and lends
 * `used`. */
uint64_t pools_needed(uint64_t used, uint64_t reserved, uint64_t bytes);

struct allocation;

/* A piece of a pool (its record's `value`) was freed. */
void pools_end_free(struct process *p, const struct allocation *piece);
/* Counts what pools and graphs hold now, which may be less than before. True if there is any. */
bool pools_settle(struct process *p);
/* Has them give back what they only keep, on the device. True if there are any. */
bool pools_let_go(struct process *p, int device);
/* In a child. */
void pools_reset(struct pools *pools);
