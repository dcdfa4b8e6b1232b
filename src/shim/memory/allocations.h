/*
 * Which device memory the process holds: address or handle → bytes and device, for giving back what
 * was counted. Grows as needed, in memory of its own: the program's malloc may be anything.
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
    uint64_t context; /* with which it goes; 0: with none */
    uint64_t value;   /* the owner's own */
    int32_t device;   /* index of devices.h */
};

struct allocations {
    struct lock lock;
    struct allocation *places; /* a power of two of them; NULL: none yet */
    size_t place_count, count;
};

/* All of these: also false in a handler of a signal that came while this thread was in one of
 * them. */

/* Takes a copy; an address that is there already is replaced. False: there is no memory for it, or
 * the address is 0. */
bool allocations_add(struct allocations *allocations, const struct allocation *allocation);
/* Removes it. False if the address is not there. */
bool allocations_take(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* Copies it, without removing it. False if the address is not there. */
bool allocations_find(struct allocations *allocations, uint64_t address,
                      struct allocation *ret_allocation);
/* The same for any address within its bytes. Looks at all of them. */
bool allocations_find_around(struct allocations *allocations, uint64_t address,
                             struct allocation *ret_allocation);
/* Removes one that goes with the context, looking from *cursor on, 0 at first. False: there is no
 * more. */
bool allocations_take_of(struct allocations *allocations, uint64_t context, size_t *cursor,
                         struct allocation *ret_allocation);
/* Forgets all, and whoever held the lock: in a child, or at the end. */
void allocations_reset(struct allocations *allocations);
