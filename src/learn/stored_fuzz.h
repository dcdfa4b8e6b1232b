/* Common body of the fuzzers of stored models: loads the input as a whole saved model, and as the
 * payload behind a valid header and checksum. */
#pragma once
#include "learn/stored.h"

static inline void stored_fuzz(const uint8_t *data, size_t size, const char *kind, size_t bytes_max,
                               void (*load)(const void *bytes, size_t length))
{
    struct str sealed;
    load(data, size);
    str_init(&sealed, bytes_max);
    size_t start = stored_begin(&sealed, kind, 1);
    str_append_bytes(&sealed, data, size);
    stored_end(&sealed, start);
    if (!str_failed(&sealed))
        load(sealed.data, sealed.length);
    str_done(&sealed);
}
