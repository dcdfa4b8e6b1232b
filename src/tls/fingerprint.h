/*
 * The SHA-256 fingerprint of a certificate in the form that people pass on: "sha256:" and 64
 * hexadecimal digits. The parser also accepts colons between pairs of digits, as other tools print
 * them.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"

enum { FINGERPRINT_BYTES = 32, FINGERPRINT_TEXT_MAX = 7 + 2 * FINGERPRINT_BYTES + 1 };

struct fingerprint {
    unsigned char bytes[FINGERPRINT_BYTES];
};

/* Returns 0 or -ERR_SYNTAX. */
int fingerprint_parse(struct error *e, const char *text, struct fingerprint *ret);
/* Writes the fingerprint into `text`, and returns `text`. */
char *fingerprint_format(const struct fingerprint *f, char text[FINGERPRINT_TEXT_MAX]);
bool fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b);
/* Computes the fingerprint of the first certificate in a PEM text. Returns 0, or -ERR_SYNTAX if the
 * text has no certificate. */
int fingerprint_of(struct error *e, const char *certificate_pem, struct fingerprint *ret);
