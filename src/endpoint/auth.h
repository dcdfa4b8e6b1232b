/*
 * Who a uid is and what it may: names of accounts and members of the admin group, as the system's
 * databases say. Answers are kept for a while, because those databases may be far away.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "endpoint/http.h"
#include "model/workload.h"

enum { AUTH_CACHE_MAX = 256, AUTH_CACHE_MS = 30000 };

struct auth;

/* daemon_uid: is admin too, as uid 0 is. admin_group: its members are; NULL or a group that does
 * not exist: nobody more. */
int auth_new(struct error *e, uid_t daemon_uid, const char *admin_group, struct auth **ret);
void auth_free(struct auth *a);
bool auth_is_admin(struct auth *a, const struct http_peer *peer);
/* The account's name, or the number as text if there is none. Valid until the next call. */
const char *auth_user_name(struct auth *a, uid_t uid);
/* Not kept: asks the system every time. */
bool auth_user_is_in_group(const char *user, const char *group);
/* The uid of an account, given by name or as a number that has an account. -ERR_NOT_FOUND. */
int auth_find_user(struct error *e, const char *name, uid_t *ret_uid);
