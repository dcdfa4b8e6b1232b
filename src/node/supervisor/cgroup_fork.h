/*
 * A fork whose child begins its life in a control group. Moving a process there afterwards waits
 * for every CPU to pass through the scheduler, 10 ms and more; this does not.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

/*
 * As fork, without its handlers: in a process with threads the child may only make system calls.
 * The parent goes on when the child has exec'ed or ended if `wait`. -1 where the kernel or the
 * group's permissions do not allow it: then fork, and write to cgroup.procs.
 */
pid_t cgroup_fork(int group_fd, bool wait);
