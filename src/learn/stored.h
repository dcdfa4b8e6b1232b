/*
 * A learned model as bytes, so that learning survives a restart. Callers do the input and output.
 *
 *   "gpumuxlm"  8 bytes
 *   kind        4 bytes, the type of model ("memo", "tune", …)
 *   version     u32, of that kind
 *   length      u64, bytes of the payload
 *   payload
 *   checksum    u64, hash_bytes() of all bytes before the checksum
 *
 * Numbers are little-endian; doubles are IEEE 754 bits and always finite. The reader rejects any
 * other input, and the owner starts to learn again.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { STORED_KIND_BYTES = 4 };

/* Appends the header and returns its offset for stored_end(). `kind` has STORED_KIND_BYTES
 * bytes. */
size_t stored_begin(struct str *to, const char *kind, uint32_t version);
void stored_put_u64(struct str *to, uint64_t value);
void stored_put_double(struct str *to, double value);
/* Writes the payload's length into the header at `start`, and appends the checksum. The caller
 * checks str_failed() for lack of room. */
void stored_end(struct str *to, size_t start);

/* Borrows the bytes. A read past the end, or of a double that is not finite, returns 0 and marks
 * the reader as failed. So a loader reads without checks and checks once, by stored_close(). */
struct stored_reader {
    const unsigned char *bytes;
    size_t left;
    bool failed;
};

/* Verifies header and checksum. Returns -ERR_CORRUPT, or -ERR_TOO_NEW if the version is above
 * `version_max`. */
int stored_open(struct error *e, const void *bytes, size_t length, const char *kind,
                uint32_t version_max, struct stored_reader *ret_reader, uint32_t *ret_version);
uint64_t stored_get_u64(struct stored_reader *r);
/* Reads a count or index; fails above `max`. */
size_t stored_get_size(struct stored_reader *r, size_t max);
double stored_get_double(struct stored_reader *r);
/* Returns -ERR_CORRUPT if a read failed or bytes are left. */
int stored_close(struct error *e, const struct stored_reader *r);
