/*
 * A table of the process's device memory, from an address or handle to bytes and device. The hook
 * of a free finds the counted bytes in this table. The table grows as needed, in mappings of its
 * own, since the program may replace malloc.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/sys/lock.h"

enum { ALLOCATIONS_BITS = 26, ALLOCATIONS_MAX = 1 << ALLOCATIONS_BITS };

struct allocation {
    uint64_t address; /* 0: the place is free */
    uint64_t bytes;
    uint64_t context; /* context whose end frees the memory; 0: none */
    uint64_t value;   /* meaning defined by the table's owner */
    int32_t device;   /* index of devices.h */
};

struct allocations {
    struct lock lock;
    struct allocation *places; /* NULL: no table yet */
    size_t place_count, count; /* place_count is a power of two */
};

/* Every function below also returns false in a signal handler that interrupted the same thread
 * inside one of these functions. */

/* Copies *allocation into the table, and replaces an entry with the same address. Returns false if
 * out of memory, or if the address is 0. */
bool allocations_add(struct allocations *allocations, const struct allocation *allocation);
/* Removes the entry of the address. Returns false if the address has no entry. */
bool allocations_take(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* Copies the entry of the address. Returns false if the address has no entry. */
bool allocations_find(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* Like allocations_find(), for any address within an entry's bytes. Visits all entries. */
bool allocations_find_around(struct allocations *allocations, uint64_t address,
                             struct allocation *ret_allocation);
/* Removes one entry of the context, searching from *cursor, which starts at 0. Returns false if the
 * context has no more entries. */
bool allocations_take_of(struct allocations *allocations, uint64_t context, size_t *cursor,
                         struct allocation *ret_allocation);
/* Removes all entries and resets the lock, in a forked child or at the end. */
void allocations_reset(struct allocations *allocations);
