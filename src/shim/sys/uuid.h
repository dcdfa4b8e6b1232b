/* A device's UUID as NVML writes it. The parser calls no C library, because the shim runs inside
 * other programs. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { UUID_BYTES = 16 };

/* Parses "GPU-" and 16 bytes in hexadecimal digits, with dashes between bytes. Returns false for
 * any other text, possibly after filling a part of ret_uuid. */
bool uuid_parse(const char *text, uint8_t ret_uuid[UUID_BYTES]);
