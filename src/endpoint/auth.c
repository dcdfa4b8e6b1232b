#include "endpoint/auth.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

enum { RECORD_BYTES = 16384, GROUPS_MAX = 1024 };

struct account {
    uid_t uid;
    int64_t until_ms; /* on the boot clock; 0: free entry */
    bool in_group;
    char name[USER_NAME_MAX];
};

struct auth {
    uid_t daemon_uid;
    char *admin_group;
    struct account accounts[AUTH_CACHE_MAX]; /* by uid modulo AUTH_CACHE_MAX */
};

int auth_new(struct error *e, uid_t daemon_uid, const char *admin_group, struct auth **ret)
{
    struct auth *a = calloc(1, sizeof *a);
    if (a && admin_group)
        a->admin_group = strdup(admin_group);
    if (!a || (admin_group && !a->admin_group)) {
        free(a);
        return error_set(e, ERR_NO_MEMORY, "no memory for accounts");
    }
    a->daemon_uid = daemon_uid;
    *ret = a;
    return 0;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    free(a->admin_group);
    free(a);
}

static bool user_is_in_group(const char *user, gid_t primary, const char *group)
{
    char record[RECORD_BYTES];
    struct group entry, *found = NULL;
    if (!group || getgrnam_r(group, &entry, record, sizeof record, &found) != 0 || !found)
        return false;
    gid_t wanted = found->gr_gid, groups[GROUPS_MAX];
    int count = GROUPS_MAX;
    if (getgrouplist(user, primary, groups, &count) < 0)
        count = GROUPS_MAX; /* more groups than room: use the first ones */
    for (int i = 0; i < count; i++)
        if (groups[i] == wanted)
            return true;
    return false;
}

bool auth_user_is_in_group(const char *user, const char *group)
{
    char record[RECORD_BYTES];
    struct passwd entry, *found = NULL;
    return getpwnam_r(user, &entry, record, sizeof record, &found) == 0 && found &&
           user_is_in_group(user, found->pw_gid, group);
}

static const struct account *account_of(struct auth *a, uid_t uid)
{
    struct account *kept = &a->accounts[uid % AUTH_CACHE_MAX];
    int64_t now_ms = clock_boot_ms();
    if (kept->uid == uid && kept->until_ms > now_ms)
        return kept;
    char record[RECORD_BYTES];
    struct passwd entry, *found = NULL;
    int r = getpwuid_r(uid, &entry, record, sizeof record, &found);
    *kept = (struct account){.uid = uid, .until_ms = now_ms + AUTH_CACHE_MS};
    if (r == 0 && found && str_copy(kept->name, sizeof kept->name, found->pw_name))
        kept->in_group = user_is_in_group(found->pw_name, found->pw_gid, a->admin_group);
    else
        snprintf(kept->name, sizeof kept->name, "%lu", (unsigned long)uid);
    return kept;
}

bool auth_is_admin(struct auth *a, const struct http_peer *peer)
{
    return peer->uid == 0 || peer->uid == a->daemon_uid || account_of(a, peer->uid)->in_group;
}

const char *auth_user_name(struct auth *a, uid_t uid)
{
    return account_of(a, uid)->name;
}

int auth_find_user(struct error *e, const char *name, uid_t *ret_uid)
{
    char record[RECORD_BYTES], *end;
    struct passwd entry, *found = NULL;
    int r = getpwnam_r(name, &entry, record, sizeof record, &found);
    if (r == 0 && !found && name[0] >= '0' && name[0] <= '9') {
        errno = 0;
        unsigned long uid = strtoul(name, &end, 10);
        if (errno == 0 && *end == '\0' && (uid_t)uid == uid)
            r = getpwuid_r((uid_t)uid, &entry, record, sizeof record, &found);
    }
    if (!found && r != 0 && r != ENOENT && r != ESRCH)
        return error_set_errno(e, ERR_IO, r, "looking up the account %.64s", name);
    if (!found)
        return error_set(e, ERR_NOT_FOUND, "there is no account %.64s on this machine", name);
    *ret_uid = found->pw_uid;
    return 0;
}
