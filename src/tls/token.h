/*
 * Tokens: 256 random bits that a client shows to be let in. Whoever issues one keeps its hash
 * alone, so that a stolen state lets nobody in. "gmx_" and 64 hexadecimal digits is a token of the
 * API, "gmj_" and as many one with which a node joins, once.
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

/* A new one. -ERR_IO: the system gives no random numbers. */
int token_make(struct error *e, enum token_kind kind, char ret_text[TOKEN_TEXT_MAX]);
/* Has the text the form of a token of this kind? Says nothing about whether anybody issued it. */
bool token_is_formed(enum token_kind kind, const char *text);
/* What is kept of a token: the SHA-256 of its text in hexadecimal digits. -ERR_NO_MEMORY. */
int token_hash(struct error *e, const char *text, char ret_hash[TOKEN_HASH_TEXT_MAX]);
/* In a time that does not depend on where they differ. */
bool token_hash_equal(const char a[TOKEN_HASH_TEXT_MAX], const char b[TOKEN_HASH_TEXT_MAX]);
