/* Standard base64 with padding (RFC 4648, section 4). */
#pragma once
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

void base64_append(struct str *out, const void *bytes, size_t length);
/* Decodes strictly: the text has no white space, its padding is complete and its unused bits are
 * zero. The arena owns the bytes. Returns 0, -ERR_INVALID or -ERR_NO_MEMORY. */
int base64_decode(struct arena *arena, const char *text, size_t length, void **ret_bytes,
                  size_t *ret_length);
