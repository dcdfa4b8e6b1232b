/*
 * A fork whose child starts in a control group. Moving a process into a group later takes 10 ms or
 * more, because the kernel waits until every CPU has passed through the scheduler.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/*
 * Forks without atfork handlers: in a multi-threaded process the child may only make system calls.
 * With `wait` the parent continues after the child has exec'ed or ended. Returns -1 if the kernel
 * or the group's permissions do not allow the fork into the group; the caller then forks and writes
 * to cgroup.procs.
 */
pid_t cgroup_fork(int group_fd, bool wait);
