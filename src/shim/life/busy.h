/*
 * The contexts that the process has launched into, in which work may be outstanding. A context is
 * in the list from its first launch until its end.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

struct process;

enum { BUSY_MAX = 64 }; /* size of the list; the shim does not wait for work in further contexts */

struct busy {
    _Atomic(CUcontext) last; /* context of the latest launch */
    _Atomic(CUcontext) places[BUSY_MAX];
    /* Indexed by place: a service's launches without marks (streams.h) since the last wait for that
     * context. */
    _Atomic uint64_t unmarked[BUSY_MAX];
};

/* Adds the current context: when a stream gets its slot (streams.h), and at each launch into a
 * stream without a slot. */
void busy_note(struct process *p);
/* Removes the context before the driver may destroy it; NULL removes all contexts. Returns true if
 * the context was in the list; if the context survives, the caller adds the context again. */
bool busy_forget(struct busy *busy, CUcontext context);
void busy_add(struct busy *busy, CUcontext context);
/* Returns the context's entry in `unmarked`, or NULL if the context is not in the list. */
_Atomic uint64_t *busy_unmarked(struct busy *busy, CUcontext context);
/* Waits until the contexts have no outstanding work. If the driver refuses to synchronise, waits
 * for the charged GPU time instead, at most until `until_ns`. Not for signal handlers. */
void busy_synchronize(struct process *p, uint64_t until_ns);
