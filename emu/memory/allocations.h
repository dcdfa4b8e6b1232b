/*
 * The device memory of this process: address ranges that are allocations, and the host memory
 * behind those that have contents. A device address is reserved in the process but inaccessible, so
 * a program that dereferences a device pointer on the host crashes here too. An allocation has
 * contents from its first copy or fill on, in host memory that is used only as far as it is
 * written. All contents together may span ALLOCATIONS_BACKED_BYTES_MAX.
 *
 * Not safe for threads: the caller holds process.lock.
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
    uint64_t bytes;         /* size that was asked for */
    uint64_t span_bytes;    /* size of the address range */
    uint64_t charged_bytes; /* size that is charged to the device */
    struct context *context;
    struct pool *pool; /* pool of the allocation, or NULL */
    /* Graph memory of the allocation, or NULL (graph_memory.c). */
    struct graph_memory *graph_memory;
    int share_fd; /* above 0: the file that `backing` maps (ipc.c) */
    /* Opens of another process's memory; 0: memory of this process (ipc.c). */
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
/* Returns the allocation by which the context already has that memory of another process, or NULL.
 * Valid until the next add or remove. */
struct allocation *allocations_find_import(struct allocations *a, uint64_t inode,
                                           const struct context *context);
/* Removes an allocation with its addresses and contents. */
void allocations_remove(struct allocations *a, struct allocation *allocation);
/* Returns the host memory behind device address `address`, making it if necessary. Returns NULL if
 * that would exceed ALLOCATIONS_BACKED_BYTES_MAX, or the host is out of memory. */
unsigned char *allocations_contents(struct allocations *a, struct allocation *allocation,
                                    uint64_t address);
