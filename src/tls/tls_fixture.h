/* For tests: an authority, and keys with certificates from that authority. A failure ends the
 * test. */
#pragma once
#include "tls/certificate.h"
#include "tls/context.h"

struct tls_party {
    struct str key, certificate; /* PEM */
};

void tls_fixture_ca(struct tls_party *ret);
/* Issues a certificate; a server's certificate is valid for localhost, 127.0.0.1 and ::1. With a
 * negative life_ms the certificate has expired already. */
void tls_fixture_issue(const struct tls_party *ca, const char *name, enum certificate_role role,
                       int64_t life_ms, struct tls_party *ret);
void tls_fixture_done(struct tls_party *p);
/* Borrowed from the party. */
struct tls_identity tls_fixture_identity(const struct tls_party *p);
struct tls_context *tls_fixture_server(const struct tls_party *ca, const struct tls_party *own);
/* Makes a client's context; `own` is NULL for a client without a certificate. */
struct tls_context *tls_fixture_client(const struct tls_party *ca, const struct tls_party *own,
                                       enum tls_protocol protocol);
