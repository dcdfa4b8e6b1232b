/* Inside tls/: OpenSSL's objects, which no other folder sees. */
#pragma once
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "tls/certificate.h"
#include "tls/context.h"
#include "tls/session.h"

/* What a verification answers when no certificate of the chain has the fingerprint. */
#define TLS_WRONG_FINGERPRINT X509_V_ERR_APPLICATION_VERIFICATION

struct tls_context {
    SSL_CTX *ssl;
    struct tls_trust trust; /* of a client; ca is NULL where the fingerprint decides */
    enum tls_protocol protocol;
};

/* Before the first use of OpenSSL in any call chain; cheap afterwards. */
int tls_library_init(struct error *e);
/* The oldest error that OpenSSL has queued, which it forgets with the others. Returns -code. */
int tls_error(struct error *e, enum error_code code, const char *doing);

/* The first certificate, key or request of a text. NULL: there is none. */
X509 *tls_parse_certificate(const char *pem);
EVP_PKEY *tls_parse_key(const char *pem);

int fingerprint_of_x509(struct error *e, const X509 *certificate, struct fingerprint *ret);
int certificate_facts_of_x509(struct error *e, const X509 *certificate,
                              struct certificate_facts *ret);
