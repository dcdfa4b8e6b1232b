/*
 * The place of control groups (v2) on this machine. The agent creates the groups of its attempts in
 * the place that these functions find. `gpumux doctor` checks the place by the same functions, and
 * so gets the same result as the agent.
 */
#pragma once
#include <limits.h>

/* Opens the group `name` under a directory, and creates the group if it is missing. Returns the
 * group's descriptor, or -1 with errno: ENOENT if the directory is no group, ENOSYS if the kernel
 * cannot kill a whole group (before 5.14), otherwise the reason why the group cannot be created. */
int cgroup_place_open(const char *directory, const char *name);
/* Opens the group `name` under this process's own group, in the first mount of cgroup v2 where that
 * is possible. Sets ret_directory to the directory of this process's group; on failure, to that
 * directory in the last mount tried, or to "" if no mount was tried. Returns the result of
 * cgroup_place_open(). */
int cgroup_place_find(const char *name, char ret_directory[PATH_MAX]);
/* Removes the group if the group is empty, and closes fd, which may be -1. */
void cgroup_place_close(int fd, const char *name);
