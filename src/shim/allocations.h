/*
 * Which device memory the process holds: address → bytes and device, for giving back what was
 * counted. Grows as needed, in memory of its own: the program's malloc may be anything.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/lock.h"

enum { ALLOCATIONS_MAX = 1 << 26 };

struct allocation {
    uint64_t address; /* 0: a free place */
    uint64_t bytes;
    uint32_t device; /* index in the ledger */
    uint32_t kind;   /* the owner's own: which call frees it */
};

struct allocations {
    struct lock lock;
    struct allocation *places; /* a power of two of them; NULL: none yet */
    size_t place_count, count;
};

/* Takes a copy; an address that is there already is replaced. False: there is no memory for it. */
bool allocations_add(struct allocations *allocations, const struct allocation *allocation);
/* Removes it. False if the address is not there. */
bool allocations_take(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* Forgets all, and whoever held the lock: in a child, or at the end. */
void allocations_reset(struct allocations *allocations);
