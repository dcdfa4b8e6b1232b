#include "tls/fingerprint.h"

#include <openssl/crypto.h>
#include <string.h>

#include "base/str.h"
#include "tls/tls_internal.h"

static const char prefix[] = "sha256:";

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int fingerprint_parse(struct error *e, const char *text, struct fingerprint *ret)
{
    struct fingerprint f;
    const char *p = text + (str_starts_with(text, prefix) ? sizeof prefix - 1 : 0);
    size_t i = 0;
    while (p != text && i < FINGERPRINT_BYTES && digit(p[0]) >= 0 && digit(p[1]) >= 0) {
        f.bytes[i++] = (unsigned char)(digit(p[0]) << 4 | digit(p[1]));
        p += 2;
        if (*p == ':' && i < FINGERPRINT_BYTES)
            p++;
    }
    if (i < FINGERPRINT_BYTES || *p)
        return error_set(e, ERR_SYNTAX,
                         "a fingerprint is sha256: and 64 hexadecimal digits, not '%.100s'", text);
    *ret = f;
    return 0;
}

char *fingerprint_format(const struct fingerprint *f, char text[FINGERPRINT_TEXT_MAX])
{
    static const char digits[] = "0123456789abcdef";
    char *p = text;
    memcpy(p, prefix, sizeof prefix - 1);
    p += sizeof prefix - 1;
    for (size_t i = 0; i < FINGERPRINT_BYTES; i++) {
        *p++ = digits[f->bytes[i] >> 4];
        *p++ = digits[f->bytes[i] & 15];
    }
    *p = '\0';
    return text;
}

bool fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

int fingerprint_of_x509(struct error *e, const X509 *certificate, struct fingerprint *ret)
{
    struct fingerprint f;
    unsigned length = 0;
    if (X509_digest(certificate, EVP_sha256(), f.bytes, &length) != 1 || length != sizeof f.bytes)
        return tls_error(e, ERR_NO_MEMORY, "fingerprint of a certificate");
    *ret = f;
    return 0;
}

int fingerprint_of(struct error *e, const char *certificate_pem, struct fingerprint *ret)
{
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    X509 *certificate = tls_parse_certificate(certificate_pem);
    if (!certificate)
        return tls_error(e, ERR_SYNTAX, "not a certificate");
    r = fingerprint_of_x509(e, certificate, ret);
    X509_free(certificate);
    return r;
}
