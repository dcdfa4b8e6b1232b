/*
 * Visits the list of loaded libraries (resolve.h) under the dynamic linker's own lock, so that no
 * library comes or goes meanwhile.
 *
 * A forked child does not get a new lock: if a thread of the parent holds the lock at the fork, the
 * child waits for ever at its own first visit. A fork therefore waits until the shim's threads have
 * released the lock, and these threads wait until the fork is over. Each wait ends after
 * LIBRARIES_WAIT_NS, because a signal handler may fork in the middle of a visit.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LIBRARIES_WAIT_NS = 2000000000 };

struct libraries {
    /* Number of threads that visit the list; number of threads that fork. */
    _Atomic int32_t inside, forks;
};

void libraries_visit(void (*visit)(void *argument), void *argument);
void libraries_before_fork(void);
void libraries_after_fork(bool is_child);
