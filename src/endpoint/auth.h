/*
 * Maps a uid to its account and rights: account names and members of the admin group, from the
 * system's databases. Results are cached for AUTH_CACHE_MS, because those databases may be remote.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "endpoint/http.h"
#include "model/workload.h"

enum { AUTH_CACHE_MAX = 256, AUTH_CACHE_MS = 30000 };

struct auth;

/* Makes the cache. Administrators are uid 0, daemon_uid and the members of admin_group, which may
 * be NULL or may not exist. */
int auth_new(struct error *e, uid_t daemon_uid, const char *admin_group, struct auth **ret);
void auth_free(struct auth *a);
bool auth_is_admin(struct auth *a, const struct http_peer *peer);
/* Returns the account's name, or the uid as text if the uid has no account. The text is valid until
 * the next call. */
const char *auth_user_name(struct auth *a, uid_t uid);
/* Queries the system at each call, without the cache. */
bool auth_user_is_in_group(const char *user, const char *group);
/* Finds the uid of an account, given by its name or by its number. Returns 0, -ERR_NOT_FOUND or
 * -ERR_IO. */
int auth_find_user(struct error *e, const char *name, uid_t *ret_uid);
