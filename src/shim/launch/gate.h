/*
 * The gate: a task's launch waits while a service on its device is busy or, by the rule DUE
 * (due.h), only while the service needs the device for itself. The task reads the service's status
 * page (neighbours.h).
 *
 * A wait ends when the services have been idle for `linger`, because a queued request follows the
 * last request within microseconds. A wait lasts `most_ns` at most. If a busy slot completes
 * nothing for `most_ns`, the gate treats the slot as stuck and ignores it until its mark
 * advances. The service may have died before writing the mark. The service's other slots still
 * count.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/launch/due.h"
#include "shim/life/neighbours.h"

/* Maximum number of slots that one wait watches; later waits find further stuck slots. */
enum { GATE_WATCHED_MAX = 64 };

struct gate {
    /* Bit i: slot i is stuck while its mark equals stuck_at. A poll rarely needs stuck_at. */
    _Atomic uint64_t stuck[REGISTER_NEIGHBOURS_MAX];
    _Atomic uint64_t stuck_at[REGISTER_NEIGHBOURS_MAX][PAGE_STREAMS_MAX];
    _Atomic uint64_t moved[PAGE_DEVICES_MAX]; /* sum of marks at the last poll; 0: never polled */
};

/* The state of the services on a device. */
struct gate_view {
    uint64_t busy;    /* bit i: the task waits for neighbour i */
    uint64_t working; /* bit i: neighbour i has work outstanding */
    uint64_t sum;     /* sum of all marks of the services; a changed sum shows activity */
};
/* Returns the present state of the services on the device. rule NULL: the task waits for every
 * service that has work outstanding. */
struct gate_view gate_look(const struct gate *gate, const struct neighbours *neighbours, int device,
                           const struct due_rule *rule);

/* The slots that were busy when a wait began. */
struct gate_watch {
    uint32_t count;
    uint8_t numbers[GATE_WATCHED_MAX], slots[GATE_WATCHED_MAX];
    uint64_t completed[GATE_WATCHED_MAX];
};
_Static_assert(REGISTER_NEIGHBOURS_MAX <= UINT8_MAX && PAGE_STREAMS_MAX <= UINT8_MAX,
               "numbers and slots fit in a byte");
/* Notes the slots with outstanding work, and their marks. */
void gate_watch(const struct gate *gate, const struct neighbours *neighbours, int device,
                struct gate_watch *ret_watch);
/* Call after a wait of most_ns. Marks the watched slots as stuck that are still busy and have
 * completed nothing. */
void gate_ignore(struct gate *gate, const struct neighbours *neighbours,
                 const struct gate_watch *watch);

struct gate_wait {
    const struct neighbours *neighbours;
    int device;
    const struct due_rule *rule; /* NULL: wait for every busy service */
    uint64_t most_ns, linger_ns;
    uint64_t short_ns; /* limit instead of most_ns while is_short(argument) returns true */
    bool (*is_short)(void *argument);
    /* Called repeatedly to read the agent's messages, since neighbours may end meanwhile. */
    void (*listen)(void *argument);
    void *argument;
};
/* Waits as described above. Returns the duration of the wait in ns; sets *ret_passed if a service
 * is still busy. */
uint64_t gate_hold(struct gate *gate, const struct gate_wait *wait, bool *ret_passed);
