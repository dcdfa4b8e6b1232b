/*
 * The SHA-256 fingerprint of a certificate, as people pass it on: "sha256:" and 64 hexadecimal
 * digits. Colons between pairs of digits, as other tools print them, are taken too.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { FINGERPRINT_BYTES = 32, FINGERPRINT_TEXT_MAX = 7 + 2 * FINGERPRINT_BYTES + 1 };

struct fingerprint {
    unsigned char bytes[FINGERPRINT_BYTES];
};

/* -ERR_SYNTAX */
int fingerprint_parse(struct error *e, const char *text, struct fingerprint *ret);
/* Returns text. */
char *fingerprint_format(const struct fingerprint *f, char text[FINGERPRINT_TEXT_MAX]);
bool fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b);
/* Of the first certificate in a PEM text. -ERR_SYNTAX: there is none. */
int fingerprint_of(struct error *e, const char *certificate_pem, struct fingerprint *ret);
