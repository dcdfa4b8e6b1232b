/* Finds the account under which a workload runs, and checks whether this node may use the
 * account. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

enum { ACCOUNT_GROUPS_MAX = 256 };

struct account {
    uid_t uid;
    gid_t gid;
    bool switched; /* the supervisor must switch to this account; false: the agent's own account */
    int group_count;
    gid_t groups[ACCOUNT_GROUPS_MAX];
};

/*
 * Finds the account of the user name `user` or, if `user` is NULL, of `uid`. Returns 0, or
 * -ERR_DENIED or -ERR_NOT_FOUND with a sentence for the workload's owner. An unprivileged agent can
 * use only its own account; uid 0 requires allow_root.
 */
int account_find(struct error *e, const char *user, uid_t uid, bool allow_root,
                 struct account *ret);
