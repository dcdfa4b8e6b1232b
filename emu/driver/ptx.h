/*
 * A minimal parser of PTX, the text form of kernels: finds the entry points of a module and their
 * parameters. All other text is skipped without checks.
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
    uint32_t offset; /* offset in the parameter buffer */
    uint32_t bytes;
};

struct ptx_entry {
    char name[PTX_NAME_MAX];
    struct ptx_parameter parameters[PTX_PARAMETERS_MAX];
    unsigned parameter_count;
    uint32_t buffer_bytes;
};

/* Calls `found` for every entry point of the text, in order, until `found` returns a value other
 * than 0. Returns 0, the value of `found`, -ERR_SYNTAX (not PTX) or -ERR_TOO_LARGE (beyond a limit
 * above). */
int ptx_parse(const char *text, size_t length,
              int (*found)(void *argument, const struct ptx_entry *entry), void *argument);
