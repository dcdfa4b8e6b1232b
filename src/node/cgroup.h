/*
 * Control groups (v2) of attempts: BASE/gpumux-INSTANCE/W.A/{supervisor,task}, given to the
 * attempt's user. With a group the kernel kills all processes of an attempt at once; without, they
 * are searched in /proc.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Opens (makes) this node's group. setting: "auto" (where one is writable), "off", or the directory
 * to use. *ret_fd is -1 without a group, which is an error if a directory was named.
 */
int cgroup_open(struct error *e, const char *setting, const char *instance, int *ret_fd);
/* Removes the node's group if it is empty, and closes it. -1 is fine. */
void cgroup_close(int node_fd, const char *instance);
/* Makes the group of an attempt. Returns its directory; -1: failed, and the attempt runs without a
 * group. */
int cgroup_make(int node_fd, const char *name, uid_t uid, gid_t gid);
/* Moves the calling process into the supervisor's part. For use between vfork and exec. */
void cgroup_enter(int attempt_fd);
/* Is the process in the group of this attempt of this node? */
bool cgroup_holds(const char *instance, const char *name, pid_t pid);
/* Kills all processes in the group and removes it. false: a process still lives; try again. */
bool cgroup_end(int node_fd, const char *name);
