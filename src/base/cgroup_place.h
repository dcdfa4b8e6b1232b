/*
 * The place of control groups (v2) on this machine. The agent makes the groups of its attempts
 * where these functions find a place, and `gpumux doctor` tries the same place, so both always come
 * to the same result.
 */
#pragma once
#include <limits.h>

/* Opens the group `name` under a directory, made if missing. Returns its descriptor, or -1 with
 * errno: ENOENT if the directory is no group, ENOSYS if the kernel cannot kill a whole group
 * (before 5.14), else the cause why no group can be made there. */
int cgroup_place_open(const char *directory, const char *name);
/* Opens the group `name` under this process's own group, in the first mount of cgroup v2 where that
 * is possible. ret_directory becomes the own group's directory; on failure that of the last mount,
 * or "" without any. Returns the result of cgroup_place_open(). */
int cgroup_place_find(const char *name, char ret_directory[PATH_MAX]);
/* Removes the group if the group is empty, and closes fd, which may be -1. */
void cgroup_place_close(int fd, const char *name);
