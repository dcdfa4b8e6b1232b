/* Declarations inside tls/: objects of OpenSSL, which no other folder sees. */
#pragma once
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "tls/certificate.h"
#include "tls/context.h"
#include "tls/session.h"

/* The result of a verification in which no certificate of the chain has the fingerprint. */
#define TLS_WRONG_FINGERPRINT X509_V_ERR_APPLICATION_VERIFICATION

struct tls_context {
    SSL_CTX *ssl;
    struct tls_trust trust; /* a client's trust; ca is NULL if the fingerprint decides */
    enum tls_protocol protocol;
};

/* Initialises OpenSSL; every public call that may come first calls this function. Repeated calls
 * are cheap. */
int tls_library_init(struct error *e);
/* Sets an error from the oldest error in OpenSSL's queue, and clears the queue. Returns -code. */
int tls_error(struct error *e, enum error_code code, const char *doing);

/* Return the first certificate or key of a text; NULL if there is none. */
X509 *tls_parse_certificate(const char *pem);
EVP_PKEY *tls_parse_key(const char *pem);

int fingerprint_of_x509(struct error *e, const X509 *certificate, struct fingerprint *ret);
int certificate_facts_of_x509(struct error *e, const X509 *certificate,
                              struct certificate_facts *ret);
