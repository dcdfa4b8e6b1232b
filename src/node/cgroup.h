/*
 * Control groups (v2) of attempts: BASE/gpumux-INSTANCE/W.A/{supervisor,task}, given to the
 * attempt's user. With them the end of everything in an attempt is one word to the kernel; without
 * them its processes are looked for.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Opens (makes) this node's group. setting: "auto" (where one is writable), "off", or the directory
 * to use. *ret_fd is -1 where there is none; with a directory of one's own choice that is an error.
 */
int cgroup_open(struct error *e, const char *setting, const char *instance, int *ret_fd);
/* Removes the node's group if nothing is in it any more, and closes it. -1 is fine. */
void cgroup_close(int node_fd, const char *instance);
/* Makes the group of an attempt; its directory, or -1 when that fails: then it runs without. */
int cgroup_make(int node_fd, const char *name, uid_t uid, gid_t gid);
/* Moves the calling process into the supervisor's part. For use between vfork and exec. */
void cgroup_enter(int attempt_fd);
/* Is the process in the group of this attempt of this node? */
bool cgroup_holds(const char *instance, const char *name, pid_t pid);
/* Kills whatever is in the group and removes it. False: something still lives in it, ask again. */
bool cgroup_end(int node_fd, const char *name);
