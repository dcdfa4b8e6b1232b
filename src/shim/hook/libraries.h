/*
 * Visits the list of loaded libraries (resolve.h) under the dynamic linker's own lock, so that no
 * library is loaded or unloaded meanwhile.
 *
 * A forked child inherits the state of the lock: if a thread of the parent owns the lock at the
 * fork, the child's own first visit waits for ever. A fork therefore waits until all threads in a
 * visit have released the lock, and other threads start no visit until the fork is over. Each wait
 * ends after LIBRARIES_WAIT_NS, because a signal handler may fork in the middle of a visit.
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

/* Calls visit(argument) under the lock. */
void libraries_visit(void (*visit)(void *argument), void *argument);
/* Call before and after a fork, in the parent and in the child. */
void libraries_before_fork(void);
void libraries_after_fork(bool is_child);
