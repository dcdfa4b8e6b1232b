/*
 * The device memory that the process holds: a table from an address or handle to bytes and device,
 * by which a free returns the counted bytes. The table grows as needed, in mappings of its own,
 * since the program may replace malloc.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/sys/lock.h"

enum { ALLOCATIONS_BITS = 26, ALLOCATIONS_MAX = 1 << ALLOCATIONS_BITS };

struct allocation {
    uint64_t address; /* 0: a free place */
    uint64_t bytes;
    uint64_t context; /* context whose end frees the memory; 0: none */
    uint64_t value;   /* meaning set by the table's owner */
    int32_t device;   /* index of devices.h */
};

struct allocations {
    struct lock lock;
    struct allocation *places; /* a power of two; NULL: no table yet */
    size_t place_count, count;
};

/* Every function below also returns false in a signal handler that interrupted this thread inside
 * one of these functions. */

/* Copies *allocation into the table, replacing an entry with the same address. Returns false
 * without memory for the entry, or if the address is 0. */
bool allocations_add(struct allocations *allocations, const struct allocation *allocation);
/* Removes an entry. Returns false if the address has none. */
bool allocations_take(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* Copies an entry without removing it. Returns false if the address has none. */
bool allocations_find(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* Like allocations_find(), for any address within an entry's bytes. Visits all entries. */
bool allocations_find_around(struct allocations *allocations, uint64_t address,
                             struct allocation *ret_allocation);
/* Removes one entry that belongs to the context, searching from *cursor, which starts at 0. Returns
 * false if there are no more. */
bool allocations_take_of(struct allocations *allocations, uint64_t context, size_t *cursor,
                         struct allocation *ret_allocation);
/* Removes all entries and resets the lock, in a forked child or at the end. */
void allocations_reset(struct allocations *allocations);
