/* A device's UUID as text: "GPU-8f3c1a2b-0d4e-4f60-91a2-b3c4d5e6f708". */
#pragma once
#include <stdint.h>

enum { UUID_TEXT_MAX = 48 };
/* Formats the UUID into `text`. Returns `text`. */
char *uuid_format(const uint8_t uuid[16], char text[UUID_TEXT_MAX]);
