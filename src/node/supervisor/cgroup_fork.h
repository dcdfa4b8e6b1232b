/*
 * A fork whose child starts in a control group. To move a process there later takes 10 ms or more,
 * since the kernel waits until every CPU has passed through the scheduler.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/*
 * Like fork, but without atfork handlers: in a process with threads the child may only make system
 * calls. With `wait` the parent continues after the child has exec'ed or ended. -1: the kernel or
 * the group's permissions do not allow it; then fork and write to cgroup.procs.
 */
pid_t cgroup_fork(int group_fd, bool wait);
