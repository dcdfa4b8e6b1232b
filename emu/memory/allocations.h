/*
 * The device memory of this process: which address ranges are allocations, and the host memory
 * behind those whose contents matter. A device address is one that the process has reserved and
 * cannot touch, so a program that follows a device pointer on the host dies of it here too.
 * Contents exist from the first copy or fill on, in host memory that is used up only as far as it
 * is written; together they may span ALLOCATIONS_BACKED_BYTES_MAX.
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
    ALLOCATION_MANAGED, /* the host may touch it: its addresses are its contents */
    ALLOCATION_MAPPED,  /* addresses and contents belong to virtual_memory.c */
};

struct allocation {
    enum allocation_kind kind;
    uint64_t address;
    uint64_t bytes;         /* as asked for */
    uint64_t span_bytes;    /* of the address range */
    uint64_t charged_bytes; /* as accounted to the device */
    struct context *context;
    struct pool *pool;                 /* it came from, or NULL */
    struct graph_memory *graph_memory; /* it is, or NULL (graph_memory.c) */
    int share_fd;                      /* above 0: `backing` is a mapping of it (ipc.c) */
    unsigned import_count;             /* how often it was opened; 0: it is our own (ipc.c) */
    uint64_t import_inode;             /* of share_fd, if it is another process's */
    unsigned char *backing;            /* NULL: never written */
};

struct allocations {
    struct allocation *sorted; /* by address */
    size_t count, capacity;
    uint64_t backed_bytes;
};

/* Enters a copy of *what; its address range is reserved first unless it is ALLOCATION_MAPPED. 0 or
 * -ERR_NO_MEMORY. */
int allocations_add(struct allocations *a, const struct allocation *what, uint64_t *ret_address);
/* Enters memory of another process, whose contents lie in what->share_fd; owns the descriptor from
 * then on. */
int allocations_import(struct allocations *a, const struct allocation *what, uint64_t *ret_address);
/* Moves the contents into memory that a descriptor, allocation->share_fd, stands for. */
int allocations_share(struct allocations *a, struct allocation *allocation);
/* The allocation that holds the whole range, or NULL. Valid until the next add or remove. */
struct allocation *allocations_find(struct allocations *a, uint64_t address, uint64_t bytes);
/* The memory of another process that is in that context already, or NULL; valid likewise. */
struct allocation *allocations_find_import(struct allocations *a, uint64_t inode,
                                           const struct context *context);
/* Gives addresses and contents back. */
void allocations_remove(struct allocations *a, struct allocation *allocation);
/* The host memory that stands for device address `address` in it; made if need be. NULL when that
 * would pass ALLOCATIONS_BACKED_BYTES_MAX or the host is out of memory. */
unsigned char *allocations_contents(struct allocations *a, struct allocation *allocation,
                                    uint64_t address);
