#include "tls/token.h"

#include <openssl/crypto.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"
#include "tls/tls_internal.h"

enum { PREFIX_BYTES = 4 };

static const char hexadecimal[] = "0123456789abcdef";

static const char *prefix_of(enum token_kind kind)
{
    return kind == TOKEN_API ? "gmx_" : "gmj_";
}

static void write_digits(const unsigned char *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++) {
        *text++ = hexadecimal[bytes[i] >> 4];
        *text++ = hexadecimal[bytes[i] & 15];
    }
    *text = '\0';
}

int token_make(struct error *e, enum token_kind kind, char ret_text[TOKEN_TEXT_MAX])
{
    unsigned char secret[TOKEN_SECRET_BYTES];
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return error_set_errno(e, ERR_IO, errno, "no random numbers");
    memcpy(ret_text, prefix_of(kind), PREFIX_BYTES);
    write_digits(secret, sizeof secret, ret_text + PREFIX_BYTES);
    explicit_bzero(secret, sizeof secret);
    return 0;
}

bool token_is_formed(enum token_kind kind, const char *text)
{
    return str_starts_with(text, prefix_of(kind)) && strlen(text) == TOKEN_TEXT_MAX - 1 &&
           strspn(text + PREFIX_BYTES, hexadecimal) == (size_t)2 * TOKEN_SECRET_BYTES;
}

int token_hash(struct error *e, const char *text, char ret_hash[TOKEN_HASH_TEXT_MAX])
{
    unsigned char hash[TOKEN_HASH_BYTES];
    unsigned length = 0;
    int r = tls_library_init(e);
    if (r < 0)
        return r;
    if (EVP_Digest(text, strlen(text), hash, &length, EVP_sha256(), NULL) != 1 ||
        length != sizeof hash)
        return tls_error(e, ERR_NO_MEMORY, "hash of a token");
    write_digits(hash, sizeof hash, ret_hash);
    return 0;
}

bool token_hash_equal(const char a[TOKEN_HASH_TEXT_MAX], const char b[TOKEN_HASH_TEXT_MAX])
{
    return CRYPTO_memcmp(a, b, TOKEN_HASH_TEXT_MAX) == 0;
}
