/*
 * The cluster's certificate authority, and control's own certificate, in the state directory:
 *
 *   tls/ca.key, tls/ca.pem          made once, by `gpumux control init`
 *   tls/server.key, tls/server.pem  control's own; made anew here before it expires
 *   tls/url, tls/host               where nodes and clients reach control
 *
 * ca.pem is written last: without it there is no authority, and what else is there is made again.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "tls/fingerprint.h"

struct authority;
struct tls_context;

enum { AUTHORITY_URL_MAX = 320 };

/* url: as people write it; host: the one that is in it. -ERR_CONFLICT: there is one already. */
int authority_make(struct error *e, const char *state_directory, const char *url, const char *host);
/* -ERR_NOT_FOUND: there is none, and the text says how to make one. */
int authority_open(struct error *e, const char *state_directory, struct authority **ret);
void authority_free(struct authority *a);

const char *authority_url(const struct authority *a);
const char *authority_certificate(const struct authority *a); /* PEM */
const struct fingerprint *authority_fingerprint(const struct authority *a);

/* A node's certificate for the key of that request. As certificate_issue. */
int authority_issue_node(struct error *e, const struct authority *a, const char *request,
                         const char *name, int64_t life_ms, struct str *ret_certificate);
/* When a node's certificate, valid until then, should be renewed: in how many milliseconds, ≥ 1. */
int64_t authority_renew_ms(int64_t until_wall_ms, int64_t life_ms, int64_t now_wall_ms);

/* What control listens with: its own certificate, made anew if a third of its life or less is left.
 * *ret_due_ms: when to ask again. */
int authority_server_context(struct error *e, const struct authority *a, struct tls_context **ret,
                             int64_t *ret_due_ms);
