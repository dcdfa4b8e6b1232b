/*
 * The gate: a task's launch waits while a service of its device is busy, which the task reads in
 * the service's status page (neighbours.h).
 *
 * A hold ends when the services have been idle for `linger`: a request that waits behind the one
 * that has ended comes within microseconds. It ends at the latest after `most`. A slot of a service
 * in which nothing was completed in all that time is stuck, and not waited for again until
 * something is: the service may be dead, or nobody left who could write the slot's mark. Its other
 * slots count as before.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/life/neighbours.h"

/* Busy slots of which one hold can find that they are stuck; a later one finds more. */
enum { GATE_WATCHED_MAX = 64 };

struct gate {
    /* Bit i: slot i is, while its mark is that of stuck_at. Each look reads this, and mostly
     * nothing more. */
    _Atomic uint64_t stuck[REGISTER_NEIGHBOURS_MAX];
    _Atomic uint64_t stuck_at[REGISTER_NEIGHBOURS_MAX][PAGE_STREAMS_MAX];
    _Atomic uint64_t moved[PAGE_DEVICES_MAX]; /* the sum of marks last seen; 0: never looked */
};

/* What the services of a device do. */
struct gate_view {
    uint64_t busy; /* bit i: neighbour i */
    uint64_t sum;  /* of all their marks: something has happened if it is another */
};
struct gate_view gate_look(const struct gate *gate, const struct neighbours *neighbours,
                           int device);

/* The slots that were busy when a hold began. */
struct gate_watch {
    uint32_t count;
    uint8_t numbers[GATE_WATCHED_MAX], slots[GATE_WATCHED_MAX];
    uint64_t completed[GATE_WATCHED_MAX];
};
_Static_assert(REGISTER_NEIGHBOURS_MAX <= UINT8_MAX && PAGE_STREAMS_MAX <= UINT8_MAX,
               "a byte each");
void gate_watch(const struct gate *gate, const struct neighbours *neighbours, int device,
                struct gate_watch *ret_watch);
/* After the longest hold: of those watched, the ones that are busy still and have completed nothing
 * are stuck. */
void gate_ignore(struct gate *gate, const struct neighbours *neighbours,
                 const struct gate_watch *watch);

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
