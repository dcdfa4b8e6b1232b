#include "node/attempt/account.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

enum { ENTRY_BYTES = 16 << 10 };

/* Sets uid, gid and groups from the user database. Returns 0 or -ERR_NOT_FOUND. */
static int look_up(struct error *e, const char *user, uid_t uid, struct account *account)
{
    struct passwd entry, *found = NULL;
    char *buffer = malloc(ENTRY_BYTES);
    if (!buffer)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    if (user)
        getpwnam_r(user, &entry, buffer, ENTRY_BYTES, &found);
    else
        getpwuid_r(uid, &entry, buffer, ENTRY_BYTES, &found);
    int r = 0;
    if (!found && user)
        r = error_set(e, ERR_NOT_FOUND, "there is no user '%s' on this node", user);
    else if (!found)
        r = error_set(e, ERR_NOT_FOUND, "there is no user with uid %u on this node", uid);
    else {
        account->uid = entry.pw_uid;
        account->gid = entry.pw_gid;
        account->group_count = ACCOUNT_GROUPS_MAX;
        if (getgrouplist(entry.pw_name, entry.pw_gid, account->groups, &account->group_count) < 0)
            r = error_set(e, ERR_TOO_LARGE, "user '%s' is in more than %d groups", entry.pw_name,
                          ACCOUNT_GROUPS_MAX);
    }
    free(buffer);
    return r;
}

int account_find(struct error *e, const char *user, uid_t uid, bool allow_root, struct account *ret)
{
    uid_t self = geteuid();
    struct account account = {.uid = uid, .gid = getegid()};
    /* The agent's own uid needs no entry, which may be missing in a container. */
    if (user || uid != self) {
        int r = look_up(e, user, uid, &account);
        if (r < 0)
            return r;
    }
    if (self != 0 && account.uid != self)
        return error_set(e, ERR_DENIED,
                         "this node runs as uid %u and cannot run workloads of uid %u", self,
                         account.uid);
    if (self == 0 && account.uid == 0 && !allow_root)
        return error_set(e, ERR_DENIED,
                         "workloads of root are refused: set allow_root in the configuration "
                         "to allow them");
    account.switched = account.uid != self;
    *ret = account;
    return 0;
}
