#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>

#include "tls/tls_internal.h"

int tls_library_init(struct error *e)
{
    /* The configuration file is not loaded: accepted connections must not depend on the machine,
     * and a command that connects once should not read the file. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
        return error_set(e, ERR_NO_MEMORY, "OpenSSL cannot be started");
    return 0;
}

int tls_error(struct error *e, enum error_code code, const char *doing)
{
    unsigned long first = ERR_get_error();
    const char *reason = first ? ERR_reason_error_string(first) : NULL;
    ERR_clear_error();
    return error_set(e, code, "%s: %s", doing, reason ? reason : "OpenSSL gives no reason");
}

static BIO *text_bio(const char *pem)
{
    size_t length = strlen(pem);
    return length <= CERTIFICATE_PEM_MAX ? BIO_new_mem_buf(pem, (int)length) : NULL;
}

X509 *tls_parse_certificate(const char *pem)
{
    BIO *bio = text_bio(pem);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return certificate;
}

/* Refuses a key with a password, because nobody can enter a password for a daemon. */
static int no_password(char *buffer, int size, int writing, void *arg)
{
    (void)buffer, (void)size, (void)writing, (void)arg;
    return -1;
}

EVP_PKEY *tls_parse_key(const char *pem)
{
    BIO *bio = text_bio(pem);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    return key;
}
