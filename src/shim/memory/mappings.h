/*
 * Device memory by handles (cuMemCreate). The process is charged for the memory while an unreleased
 * handle or a mapped range of addresses refers to the memory. Imported memory counts for the
 * process that created the memory.
 */
#pragma once
#include "shim/memory/allocations.h"
#include "shim/sys/lock.h"

/* Each piece of memory is a record in `memories` with a unique number; handles and ranges refer to
 * this number. */
struct mappings {
    /* Protects calls that map, unmap or retain, in which addresses change owners. */
    struct lock remapping;
    struct lock lock;            /* protects all fields below; taken inside `remapping` */
    struct allocations memories; /* by number: bytes and device; value: references */
    /* By handle: the memory's number in value; bytes: outstanding releases. */
    struct allocations handles;
    struct allocations ranges; /* by first address: bytes; value: the memory's number */
    uint64_t last_number;
};

/* Resets the state in a forked child. */
void mappings_reset(struct mappings *mappings);
