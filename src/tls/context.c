#include "tls/context.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "tls/tls_internal.h"

/* names as in ALPN: each after its length */
static const unsigned char http_name[] = "\x08http/1.1";
static const unsigned char node_name[] = "\x0dgpumux-node/1";

/* ---- rules for both sides ---- */

static SSL_CTX *context_base(const SSL_METHOD *method)
{
    SSL_CTX *ssl = SSL_CTX_new(method);
    if (!ssl)
        return NULL;
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(ssl, 0) != 1) {
        SSL_CTX_free(ssl);
        return NULL;
    }
    return ssl;
}

static int use_identity(struct error *e, SSL_CTX *ssl, const struct tls_identity *own)
{
    X509 *certificate = tls_parse_certificate(own->certificate);
    EVP_PKEY *key = tls_parse_key(own->key);
    int r = 0;
    if (!certificate || !key || SSL_CTX_use_certificate(ssl, certificate) != 1 ||
        SSL_CTX_use_PrivateKey(ssl, key) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        r = tls_error(e, ERR_INVALID, "our key and certificate do not go together");
    X509_free(certificate);
    EVP_PKEY_free(key);
    return r;
}

/* Trusts the authority. *ret is a reference that the caller owns. */
static int trust_ca(struct error *e, SSL_CTX *ssl, const char *pem, X509 **ret)
{
    X509 *ca = tls_parse_certificate(pem);
    if (!ca || X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), ca) != 1) {
        X509_free(ca);
        return tls_error(e, ERR_INVALID, "the authority's certificate cannot be used");
    }
    *ret = ca;
    return 0;
}

/* ---- server ---- */

static bool offers(const unsigned char *in, unsigned length, const unsigned char *name)
{
    for (unsigned at = 0; at < length; at += 1u + in[at])
        if (at + 1u + in[at] <= length && in[at] == name[0] &&
            memcmp(in + at, name, 1u + name[0]) == 0)
            return true;
    return false;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                           const unsigned char *in, unsigned length, void *arg)
{
    (void)ssl, (void)arg;
    const unsigned char *chosen = offers(in, length, node_name)   ? node_name
                                  : offers(in, length, http_name) ? http_name
                                                                  : NULL;
    if (!chosen)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen + 1;
    *out_length = chosen[0];
    return SSL_TLSEXT_ERR_OK;
}

int tls_context_new_server(struct error *e, const struct tls_identity *own, const char *ca,
                           struct tls_context **ret)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    X509 *authority = NULL;
    struct tls_context *c = calloc(1, sizeof *c);
    if (!c || !(c->ssl = context_base(TLS_server_method())))
        r = tls_error(e, ERR_NO_MEMORY, "starting TLS");
    if (r == 0)
        r = use_identity(e, c->ssl, own);
    if (r == 0)
        r = trust_ca(e, c->ssl, ca, &authority);
    /* A server usually sends no root, but a client with only its fingerprint needs the root. */
    if (r == 0 && (SSL_CTX_add1_chain_cert(c->ssl, authority) != 1 ||
                   SSL_CTX_add_client_CA(c->ssl, authority) != 1))
        r = tls_error(e, ERR_NO_MEMORY, "starting TLS");
    X509_free(authority);
    if (r < 0) {
        tls_context_free(c);
        return r;
    }
    SSL_CTX_set_mode(c->ssl, SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_select_cb(c->ssl, choose_protocol, NULL);
    *ret = c;
    return 0;
}

/* ---- client ---- */

/* Trusts the certificate of the server's chain that has the fingerprint, then verifies as usual:
 * issuer, time, purpose, host. */
static int verify_pinned(X509_STORE_CTX *check, void *arg)
{
    const struct tls_context *c = arg;
    STACK_OF(X509) *sent = X509_STORE_CTX_get0_untrusted(check);
    STACK_OF(X509) *trusted = sk_X509_new_null();
    struct fingerprint found;
    for (int i = 0; trusted && i < sk_X509_num(sent); i++) {
        X509 *certificate = sk_X509_value(sent, i);
        if (fingerprint_of_x509(NULL, certificate, &found) == 0 &&
            fingerprint_equal(&found, &c->trust.fingerprint) && X509_check_ca(certificate) == 1)
            (void)sk_X509_push(trusted, certificate);
    }
    int verified = 0;
    if (trusted && sk_X509_num(trusted) > 0) {
        X509_STORE_CTX_set0_trusted_stack(check, trusted);
        verified = X509_verify_cert(check);
    } else {
        X509_STORE_CTX_set_error(check, TLS_WRONG_FINGERPRINT);
    }
    sk_X509_free(trusted);
    return verified;
}

int tls_context_new_client(struct error *e, const struct tls_trust *trust,
                           const struct tls_identity *own, enum tls_protocol protocol,
                           struct tls_context **ret)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    X509 *authority = NULL;
    struct tls_context *c = calloc(1, sizeof *c);
    if (!c || !(c->ssl = context_base(TLS_client_method())))
        r = tls_error(e, ERR_NO_MEMORY, "starting TLS");
    if (r == 0 && own)
        r = use_identity(e, c->ssl, own);
    if (r == 0 && trust->ca)
        r = trust_ca(e, c->ssl, trust->ca, &authority);
    X509_free(authority);
    const unsigned char *name = protocol == TLS_NODE ? node_name : http_name;
    if (r == 0 && SSL_CTX_set_alpn_protos(c->ssl, name, 1u + name[0]) != 0)
        r = tls_error(e, ERR_NO_MEMORY, "starting TLS");
    if (r < 0) {
        tls_context_free(c);
        return r;
    }
    c->protocol = protocol;
    c->trust.fingerprint = trust->fingerprint;
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER, NULL);
    if (!trust->ca)
        SSL_CTX_set_cert_verify_callback(c->ssl, verify_pinned, c);
    *ret = c;
    return 0;
}

void tls_context_free(struct tls_context *c)
{
    if (!c)
        return;
    SSL_CTX_free(c->ssl);
    free(c);
}
