/*
 * The gate: a task's launch waits while a service of its device is busy, which the task reads in the
 * service's status page (neighbours.h).
 *
 * A hold ends when the services have been idle for `linger`: a request that waits behind the one that has
 * ended comes within microseconds. It ends at the latest after `most`. A service that moved nothing in all that
 * time is not waited for again until it moves: it may be dead, or its marks stuck.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/neighbours.h"

struct gate {
    _Atomic uint64_t
        ignored[REGISTER_NEIGHBOURS_MAX];     /* the sum of marks at which it is not waited for */
    _Atomic uint64_t moved[PAGE_DEVICES_MAX]; /* the sum of marks last seen; 0: never looked */
};

/* What the services of a device do. */
struct gate_view {
    uint64_t busy; /* bit i: neighbour i */
    uint64_t sum;  /* of all their marks: something has happened if it is another */
};
struct gate_view gate_look(const struct gate *gate, const struct neighbours *neighbours,
                           int device);

/* The neighbours of the bits are not waited for again until they move. */
void gate_ignore(struct gate *gate, const struct neighbours *neighbours, uint64_t stuck);

struct gate_wait {
    const struct neighbours *neighbours;
    int device;
    uint64_t most_ns, linger_ns;
    uint64_t short_ns; /* instead of most_ns while is_short(argument) says so */
    bool (*is_short)(void *argument);
    void (*listen)(void *argument); /* called again and again: neighbours may go meanwhile */
    void *argument;
};
/* Waits as said above, and returns the time that it took. ret_passed: a service is still busy. */
uint64_t gate_hold(struct gate *gate, const struct gate_wait *wait, bool *ret_passed);
