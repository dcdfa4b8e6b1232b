/*
 * Control groups (v2) of attempts: BASE/gpumux-INSTANCE/W.A/{supervisor,task}, owned by the
 * attempt's user. With a group the kernel kills all processes of an attempt at once; without a
 * group the agent searches /proc for them.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Opens this node's group, and creates the group if necessary. setting: "auto" (a writable group,
 * if any), "off", or a directory. *ret_fd is -1 without a group; a named directory without a group
 * is an error.
 */
int cgroup_open(struct error *e, const char *setting, const char *instance, int *ret_fd);
/* Removes the node's group if the group is empty, and closes node_fd, which may be -1. */
void cgroup_close(int node_fd, const char *instance);
/* Makes the group of an attempt. Returns the group's directory, or -1 on failure; the attempt then
 * runs without a group. */
int cgroup_make(int node_fd, const char *name, uid_t uid, gid_t gid);
/* Moves the calling process into the attempt's group `supervisor`. Safe between vfork() and
 * exec(). */
void cgroup_enter(int attempt_fd);
/* Returns whether the process is in the group of this attempt of this node. */
bool cgroup_holds(int node_fd, const char *name, pid_t pid);
/* Kills all processes in the group and removes the group. Returns false while a process still
 * lives; the caller then retries. */
bool cgroup_end(int node_fd, const char *name);
