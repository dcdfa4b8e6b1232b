/*
 * Tokens: 256 random bits by which a client authenticates. The issuer stores only the hash of a
 * token, so that a stolen state gives no access. A token of the API is "gmx_" and 64 hexadecimal
 * digits. A token with which a node joins once is "gmj_" and 64 hexadecimal digits.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"

enum {
    TOKEN_SECRET_BYTES = 32,
    TOKEN_TEXT_MAX = 4 + 2 * TOKEN_SECRET_BYTES + 1,
    TOKEN_HASH_BYTES = 32,
    TOKEN_HASH_TEXT_MAX = 2 * TOKEN_HASH_BYTES + 1,
};

enum token_kind { TOKEN_API, TOKEN_JOIN };

/* Makes a new token. Returns 0, or -ERR_IO if the system provides no random numbers. */
int token_make(struct error *e, enum token_kind kind, char ret_text[TOKEN_TEXT_MAX]);
/* Returns whether the text has the form of a token of this kind; the text need not be an issued
 * token. */
bool token_is_formed(enum token_kind kind, const char *text);
/* Computes the stored form of a token: the SHA-256 of its text in hexadecimal digits. Returns 0 or
 * -ERR_NO_MEMORY. */
int token_hash(struct error *e, const char *text, char ret_hash[TOKEN_HASH_TEXT_MAX]);
/* Compares in constant time. */
bool token_hash_equal(const char a[TOKEN_HASH_TEXT_MAX], const char b[TOKEN_HASH_TEXT_MAX]);
