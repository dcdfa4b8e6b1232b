/*
 * Device memory by handles (cuMemCreate): it is held as long as it has a handle that was not
 * released, or a range of addresses that it is mapped to. What was imported is counted by who made
 * it.
 */
#pragma once
#include "shim/memory/allocations.h"
#include "shim/sys/lock.h"

/* Memory is a record in `memories` with a number of its own; `references` are handles and
 * ranges. */
struct mappings {
    struct lock remapping;       /* over calls that map, unmap or retain: addresses change hands */
    struct lock lock;            /* of all that follows; inside the other */
    struct allocations memories; /* by number: bytes, device; value: references */
    struct allocations handles;  /* by handle: value: number; bytes: how often to be released */
    struct allocations ranges;   /* by first address: bytes; value: number */
    uint64_t last_number;
};

/* In a child. */
void mappings_reset(struct mappings *mappings);
