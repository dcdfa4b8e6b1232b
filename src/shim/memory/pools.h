/*
 * Memory pools under the quota. A pool reserves memory on the device and lends pieces of this
 * memory. The quota counts the reserved bytes, which only the driver knows. The shim reads the
 * reserved bytes after each allocation, because an allocation may raise them. The shim also reads
 * the reserved bytes when they may have fallen: when the program synchronises, queries free memory,
 * or runs out of memory.
 *
 * Before an allocation, the shim reserves the memory that the pool may have to take from the
 * device, in the driver's pieces of 32 MiB. Graphs allocate from a hidden pool on each device,
 * which the shim counts in the same way (graphs.h).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/page.h"
#include "abi/cuda.h"
#include "shim/sys/lock.h"

struct process;

enum { POOLS_MAX = 256 }; /* pools of a process at one time; creating more fails */

#define POOLS_PIECE_BYTES (UINT64_C(32) << 20)

struct pool {
    struct lock lock; /* protects a call of the driver, with the reads before and after the call */
    _Atomic(CUmemoryPool) handle; /* NULL: the place is free */
    int device;                   /* index of devices.h; negative: on no device, not counted */
    _Atomic uint64_t counted_bytes;
    /* Upper bound of the lent bytes, read again when necessary; protected by `lock`. */
    uint64_t used_bytes_max;
    _Atomic uint64_t piece_count; /* number of lent pieces */
    /* 1: the program destroyed the pool; the place stays in use until the last piece is freed. */
    _Atomic uint32_t is_destroyed;
};

/* All zero: no pool is known. */
struct pools {
    struct lock lock;       /* protects the addition of a pool */
    _Atomic uint32_t count; /* places that were ever in use */
    struct pool places[POOLS_MAX];
};

/* Returns the bytes that a pool may have to take from the device to lend `bytes` more, if the pool
 * has reserved `reserved` bytes and lends `used` bytes. */
uint64_t pools_needed(uint64_t used, uint64_t reserved, uint64_t bytes);

struct allocation;

/* Notes that a piece of a pool was freed; the piece's `value` identifies the pool. */
void pools_end_free(struct process *p, const struct allocation *piece);
/* Counts the bytes that pools and graphs reserve now, which may be fewer than before. Returns
 * whether the process has any pools. */
bool pools_settle(struct process *p);
/* Makes pools and graphs on the device release unused memory. Returns whether any exist. */
bool pools_let_go(struct process *p, int device);
/* Resets the state in a forked child. */
void pools_reset(struct pools *pools);
