/*
 * Settings that all TLS connections of one kind share: the key and certificate of this side, and
 * the trusted authority. TLS 1.3 is the only version. Sessions are not resumed, so that both peers
 * prove their identity at every connection. OpenSSL does not read the machine's configuration.
 *
 * A context may be freed before the connections that use it, once their handshakes have ended.
 *
 * This folder contains certificates, TLS connections and tokens. No other folder uses OpenSSL.
 * Files of the folder tls may include base.
 */
#pragma once

#include "base/error.h"
#include "tls/fingerprint.h"

struct tls_context;

/* Own key and certificate, as PEM. */
struct tls_identity {
    const char *key, *certificate;
};

/* The authority that a client trusts, as a certificate or as a fingerprint. For a fingerprint the
 * server must send the authority's certificate, as a server of tls_context_new_server() does. */
struct tls_trust {
    const char *ca; /* PEM; NULL: the fingerprint decides */
    struct fingerprint fingerprint;
};

/* The protocol of a connection, selected in the handshake (ALPN). */
enum tls_protocol { TLS_HTTP, TLS_NODE }; /* "http/1.1" or none, "gpumux-node/1" */

/* Makes a server's context. The server sends the certificate `ca` too, and accepts only clients
 * without a certificate or with a certificate that `ca` issued. */
int tls_context_new_server(struct error *e, const struct tls_identity *own, const char *ca,
                           struct tls_context **ret);
/* Makes a client's context; `own` is NULL for a client without a certificate. */
int tls_context_new_client(struct error *e, const struct tls_trust *trust,
                           const struct tls_identity *own, enum tls_protocol protocol,
                           struct tls_context **ret);
void tls_context_free(struct tls_context *c);
