/*
 * Device memory of a swappable task: the memory behind cuMemAlloc and cuMemAllocPitch, made by
 * virtual memory management, so that the shim can move the memory to the host and back to the same
 * addresses (swap.h).
 *
 * A chunk is one range of addresses with one piece of device memory. An allocation of 1 MiB or more
 * is a chunk of whole granules of 2 MiB, which is what the driver takes for such an allocation
 * anyway. Smaller allocations share chunks of one granule, in blocks of 4 KiB. The quota is charged
 * for chunks, with the bytes that cuMemCreate takes.
 *
 * A free waits for the current work of the context, as the driver's own free does. During a capture
 * the driver forbids that wait; the chunk is then freed by a later call.
 *
 * Addresses of chunks have no handle for other processes, and a chunk's memory belongs to no
 * context; the hooks answer queries about the addresses as the driver would for its own
 * allocations.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "shim/sys/lock.h"

struct process;

#define CHUNK_GRANULE_BYTES (UINT64_C(2) << 20)

enum {
    CHUNKS_MAX = 1 << 16, /* chunks of a process; further allocations are plain and cannot move */
    CHUNK_BLOCK_BYTES = 4096,
    CHUNK_BLOCKS = 512,          /* blocks of a shared chunk */
    CHUNK_SMALL_BYTES = 1 << 20, /* smaller allocations share chunks */
};

/* The blocks of a shared chunk: exact size of the allocation that begins at a block; 0: none. */
struct chunk_blocks {
    uint32_t bytes[CHUNK_BLOCKS];
};

struct chunk {
    uint64_t address, bytes;
    uint64_t used_bytes;                 /* exact size of the only allocation; 0: shared */
    CUmemGenericAllocationHandle handle; /* valid unless is_away */
    uint64_t context;                    /* context whose end frees the chunk */
    void *host;                          /* contents while is_away */
    struct chunk_blocks *blocks;         /* of a shared chunk; NULL: not shared */
    bool is_away;                        /* the contents are in host memory */
    bool is_dead;                        /* freed during a capture; to be released */
    CUdevice number;
};

/* All zero: no chunks. */
struct chunks {
    struct lock lock;    /* protects all fields */
    struct chunk *items; /* by address */
    size_t count, capacity;
    _Atomic uint64_t present; /* number of chunks, for readers without the lock */
    uint32_t dead_count;
    _Atomic int32_t device;      /* index of the only device with chunks, plus 1; 0: none yet */
    _Atomic uint32_t is_lacking; /* the driver cannot do it: all allocations are plain */
};

/* Returns whether the process's allocations on the device are chunks. */
bool chunks_serve(struct process *p, int device);
/* Allocates in the current context. *ret_is_plain: the driver or the table cannot do it, and the
 * caller makes a plain allocation. */
CUresult chunks_allocate(struct process *p, int device, uint64_t bytes, CUdeviceptr *ret_address,
                         bool *ret_is_plain);
/* Frees the allocation that begins at the address. Returns false if the address is in no chunk. */
bool chunks_free(struct process *p, uint64_t address, CUresult *ret_result);
/* Finds the allocation around an address. Returns false if the address is in no chunk. */
struct chunk_view {
    uint64_t begin, bytes;
    uint64_t context;
    CUdevice device;
};
bool chunks_find(struct process *p, uint64_t address, struct chunk_view *ret_view);
/* Frees all chunks of a context that has ended. */
void chunks_forget_context(struct process *p, CUcontext context);
/* Maps new device memory with read and write access at the chunk's address, with the given
 * handle. */
CUresult chunk_map(struct process *p, const struct chunk *chunk,
                   CUmemGenericAllocationHandle handle);
/* Creates device memory for the chunk. */
CUresult chunk_create(struct process *p, const struct chunk *chunk,
                      CUmemGenericAllocationHandle *ret_handle);
/* Resets the state in a forked child, which has none of the memory. */
void chunks_reset(struct chunks *chunks);
