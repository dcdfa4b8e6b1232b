/*
 * Just enough of PTX, the text form of kernels: which entry points a module has and what parameters
 * they take. The rest of the text is skipped, not checked.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    PTX_TEXT_BYTES_MAX = 16 << 20,
    PTX_NAME_MAX = 256,
    PTX_PARAMETERS_MAX = 128,
    PTX_ENTRIES_MAX = 4096,
};

struct ptx_parameter {
    uint32_t offset; /* in the parameter buffer */
    uint32_t bytes;
};

struct ptx_entry {
    char name[PTX_NAME_MAX];
    struct ptx_parameter parameters[PTX_PARAMETERS_MAX];
    unsigned parameter_count;
    uint32_t buffer_bytes;
};

/* Calls `found` for every entry point of the text, in order; it returns 0 to go on. 0, what `found`
 * returned, -ERR_SYNTAX (not PTX), -ERR_TOO_LARGE (a bound above). */
int ptx_parse(const char *text, size_t length,
              int (*found)(void *argument, const struct ptx_entry *entry), void *argument);
