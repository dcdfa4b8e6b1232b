/* As whom a workload runs, and whether this node may do that. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

enum { ACCOUNT_GROUPS_MAX = 256 };

struct account {
    uid_t uid;
    gid_t gid;
    bool switched; /* the supervisor must drop to it; else it is who we are */
    int group_count;
    gid_t groups[ACCOUNT_GROUPS_MAX];
};

/*
 * The account of user name `user`, or (NULL) of `uid`. -ERR_DENIED or -ERR_NOT_FOUND with a
 * sentence for the workload's owner: unprivileged, only this process's own; root only where
 * allowed.
 */
int account_find(struct error *e, const char *user, uid_t uid, bool allow_root,
                 struct account *ret);
