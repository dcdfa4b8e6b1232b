/*
 * What all TLS connections of one kind share: own key and certificate, and whom to trust. TLS 1.3
 * and nothing older, no session resumption: every connection proves again who it is. The machine's
 * OpenSSL configuration is not read.
 *
 * A context may be freed while connections made with it live on, once their handshakes are done.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "tls/fingerprint.h"

struct tls_context;

/* Own key and certificate, as PEM. */
struct tls_identity {
    const char *key, *certificate;
};

/* Whom a client trusts: certificates of one authority, given whole or by its fingerprint. With the
 * fingerprint the server must send the authority's certificate along, as ours does. */
struct tls_trust {
    const char *ca; /* PEM; NULL: the fingerprint decides */
    struct fingerprint fingerprint;
};

/* What a connection is for, agreed upon in the handshake (ALPN). */
enum tls_protocol { TLS_HTTP, TLS_NODE }; /* "http/1.1" or none, "gpumux-node/1" */

/* ca: is sent along, and is who must have issued a client's certificate. A client may have none. */
int tls_context_new_server(struct error *e, const struct tls_identity *own, const char *ca,
                           struct tls_context **ret);
/* own: NULL for a client without a certificate. */
int tls_context_new_client(struct error *e, const struct tls_trust *trust,
                           const struct tls_identity *own, enum tls_protocol protocol,
                           struct tls_context **ret);
void tls_context_free(struct tls_context *c);
