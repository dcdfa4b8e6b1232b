/*
 * Looking at the libraries of the process (resolve.h) while none comes or goes, under the dynamic
 * linker's own lock.
 *
 * That lock is not made anew in a child: one that is forked while a thread of its parent has it
 * waits for ever at its own first look. So a fork waits until the shim's threads have left it, and
 * they until the fork is over; both for LIBRARIES_WAIT_NS at most, since a handler of a signal may
 * fork in the midst of it.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LIBRARIES_WAIT_NS = 2000000000 };

struct libraries {
    _Atomic int32_t inside, forks; /* threads that look, or fork */
};

void libraries_visit(void (*visit)(void *argument), void *argument);
void libraries_before_fork(void);
void libraries_after_fork(bool is_child);
