/*
 * A learned model as bytes, so that a restart forgets nothing. Callers do the input and output.
 *
 *   "gpumuxlm"  8 bytes
 *   kind        4 bytes, which model this is ("memo", "tune", …)
 *   version     u32, of that kind
 *   length      u64, bytes of the payload
 *   payload
 *   checksum    u64, hash_bytes() of all that is before it
 *
 * Numbers are little-endian, doubles are their IEEE 754 bits and always finite. What is not exactly
 * this is refused: the owner then learns anew.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { STORED_KIND_BYTES = 4 };

/* Appends the head; returns where it begins, for stored_end(). `kind` has STORED_KIND_BYTES. */
size_t stored_begin(struct str *to, const char *kind, uint32_t version);
void stored_put_u64(struct str *to, uint64_t value);
void stored_put_double(struct str *to, double value);
/* Writes the payload's length into the head that begins at `start`, and appends the checksum.
 * Whether everything found room, str_failed() says. */
void stored_end(struct str *to, size_t start);

/* Borrows the bytes. A read past the end, or of a double that is not finite, gives 0 and marks the
 * reader failed: a loader reads freely and asks once, by stored_close(). */
struct stored_reader {
    const unsigned char *bytes;
    size_t left;
    bool failed;
};

/* Checks the head and the checksum. -ERR_CORRUPT; -ERR_TOO_NEW when the version is above
 * `version_max`. */
int stored_open(struct error *e, const void *bytes, size_t length, const char *kind,
                uint32_t version_max, struct stored_reader *ret_reader, uint32_t *ret_version);
uint64_t stored_get_u64(struct stored_reader *r);
/* A count or index: fails above `max`. */
size_t stored_get_size(struct stored_reader *r, size_t max);
double stored_get_double(struct stored_reader *r);
/* -ERR_CORRUPT if any read failed or bytes are left. */
int stored_close(struct error *e, const struct stored_reader *r);
