/* A device's UUID, as NVML writes it. No C library: what parses it runs in other people's
 * processes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { UUID_BYTES = 16 };

/* "GPU-", and 16 bytes in digits, dashes between bytes. False: it is no such text; ret_uuid may be
 * filled in part. */
bool uuid_parse(const char *text, uint8_t ret_uuid[UUID_BYTES]);
