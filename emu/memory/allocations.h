/*
 * The device memory of this process: allocations with their address ranges, and the host memory
 * that stores their contents. A device address is reserved in the process but inaccessible, so a
 * program that dereferences a device pointer on the host crashes here too. An allocation has
 * contents from its first copy or fill on; only the written pages take host memory. The contents of
 * all allocations together may span at most ALLOCATIONS_BACKED_BYTES_MAX.
 *
 * Call every function under process.lock.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define ALLOCATIONS_BACKED_BYTES_MAX (UINT64_C(8) << 30)
enum { ALLOCATIONS_MAX = 1 << 18 };

struct context;

struct pool;
struct graph_memory;

enum allocation_kind {
    ALLOCATION_DEVICE,
    ALLOCATION_MANAGED, /* accessible to the host: the addresses are the contents */
    ALLOCATION_MAPPED,  /* addresses and contents belong to virtual_memory.c */
};

struct allocation {
    enum allocation_kind kind;
    uint64_t address;
    uint64_t bytes;         /* requested size */
    uint64_t span_bytes;    /* size of the address range */
    uint64_t charged_bytes; /* size charged to the device */
    struct context *context;
    struct pool *pool; /* pool of the allocation, or NULL */
    /* Graph memory of the allocation, or NULL (graph_memory.c). */
    struct graph_memory *graph_memory;
    int share_fd; /* above 0: the file that `backing` maps (ipc.c) */
    /* Number of opens of another process's memory; 0: memory of this process (ipc.c). */
    unsigned import_count;
    uint64_t import_inode;  /* inode of share_fd, for memory of another process */
    unsigned char *backing; /* NULL: never written */
};

struct allocations {
    struct allocation *sorted; /* sorted by address */
    size_t count, capacity;
    uint64_t backed_bytes;
};

/* Adds a copy of *what, after reserving its address range unless it is ALLOCATION_MAPPED. Returns 0
 * or -ERR_NO_MEMORY. */
int allocations_add(struct allocations *a, const struct allocation *what, uint64_t *ret_address);
/* Adds memory of another process, whose contents lie in what->share_fd. Takes ownership of the
 * descriptor. */
int allocations_import(struct allocations *a, const struct allocation *what, uint64_t *ret_address);
/* Moves the contents into a file in memory, allocation->share_fd. */
int allocations_share(struct allocations *a, struct allocation *allocation);
/* Returns the allocation that contains the whole range, or NULL. Valid until the next add or
 * remove. */
struct allocation *allocations_find(struct allocations *a, uint64_t address, uint64_t bytes);
/* Returns the context's existing import of the memory with this inode, or NULL. Valid until the
 * next add or remove. */
struct allocation *allocations_find_import(struct allocations *a, uint64_t inode,
                                           const struct context *context);
/* Removes an allocation with its addresses and contents. */
void allocations_remove(struct allocations *a, struct allocation *allocation);
/* Returns the host memory behind device address `address`, and creates that memory if necessary.
 * Returns NULL if the contents would exceed ALLOCATIONS_BACKED_BYTES_MAX, or the host is out of
 * memory. */
unsigned char *allocations_contents(struct allocations *a, struct allocation *allocation,
                                    uint64_t address);
