/*
 * The contexts that the process has launched into: where work may be outstanding. A context is
 * there from its first launch on, until it is destroyed.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/hook/cuda_types.h"

struct process;

enum { BUSY_MAX = 64 }; /* work in contexts beyond them is not waited for */

struct busy {
    _Atomic(CUcontext) last; /* that was launched into */
    _Atomic(CUcontext) places[BUSY_MAX];
    /* A service's launches there that no mark tells of (streams.h), since it was waited for. */
    _Atomic uint64_t unmarked[BUSY_MAX];
};

/* The current one: when a stream gets its slot (streams.h), and at each launch without one. */
void busy_note(struct process *p);
/* Before it may be destroyed. NULL: whichever may be. True: it was there, and is to be added again
 * if it lives on. */
bool busy_forget(struct busy *busy, CUcontext context);
void busy_add(struct busy *busy, CUcontext context);
/* The context's number of `unmarked`. NULL: it is not there. */
_Atomic uint64_t *busy_unmarked(struct busy *busy, CUcontext context);
/* Waits until they have nothing left to do; where the driver refuses to, for what is charged, and
 * until then at most. Not in a handler of a signal. */
void busy_synchronize(struct process *p, uint64_t until_ns);
