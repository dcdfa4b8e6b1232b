/*
 * The cluster's certificate authority, and control's own certificate, in the state directory:
 *
 *   tls/ca.key, tls/ca.pem          made once, by `gpumux control init`
 *   tls/server.key, tls/server.pem  control's own; renewed by this module before it expires
 *   tls/url, tls/host               address at which nodes and clients reach control
 *
 * authority_make() writes ca.pem last. Without ca.pem there is no authority, and authority_make()
 * replaces the other files.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "tls/fingerprint.h"

struct authority;
struct tls_context;

enum { AUTHORITY_URL_MAX = 320 };

/* Makes the authority for a URL and the host in that URL. Returns 0, or -ERR_CONFLICT if the
 * directory has an authority. */
int authority_make(struct error *e, const char *state_directory, const char *url, const char *host);
/* Opens the authority. Returns 0, or -ERR_NOT_FOUND if there is none; the error then names the
 * command that makes an authority. */
int authority_open(struct error *e, const char *state_directory, struct authority **ret);
void authority_free(struct authority *a);

const char *authority_url(const struct authority *a);
const char *authority_certificate(const struct authority *a); /* PEM */
const struct fingerprint *authority_fingerprint(const struct authority *a);

/* Issues a node's certificate for the key of a request. Returns the errors of
 * certificate_issue(). */
int authority_issue_node(struct error *e, const struct authority *a, const char *request,
                         const char *name, int64_t life_ms, struct str *ret_certificate);
/* Returns the time, ≥ 1 ms, after which to renew a node's certificate that is valid until
 * until_wall_ms. */
int64_t authority_renew_ms(int64_t until_wall_ms, int64_t life_ms, int64_t now_wall_ms);

/* Makes the TLS context of control's listener. The call first renews control's certificate if a
 * third of its lifetime or less is left. *ret_due_ms is the time after which to call again. */
int authority_server_context(struct error *e, const struct authority *a, struct tls_context **ret,
                             int64_t *ret_due_ms);
