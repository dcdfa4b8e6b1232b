/* Any bytes as requests and as responses: the events do not depend on how the bytes are divided.
 * The first byte chooses the direction, the method of the request, and the size of the pieces. */
#include <stdlib.h>

#include "proxy/http1.h"
#include "proxy/proxy_fuzz.h"

/* Returns a hash of the events and the offsets at which they happen. The pieces of a body are no
 * events. */
static uint64_t trace(const uint8_t *data, size_t size, uint8_t choice, size_t piece)
{
    struct http1_parser p;
    uint64_t hash = 0;
    http1_init(&p, choice & 1);
    p.answers = (enum http1_method)((choice >> 1) % 3);
    for (size_t at = 0; at < size; at += piece) {
        size_t length = size - at < piece ? size - at : piece, used = 0, step;
        enum http1_event event;
        do {
            event = http1_next(&p, (const char *)data + at + used, length - used, &step);
            used += step;
            fuzz_check(used <= length);
            fuzz_check(event != HTTP1_BODY || step > 0);
            if (event != HTTP1_MORE && event != HTTP1_BODY && event != HTTP1_BAD)
                hash = hash * 31 + (uint64_t)event * (uint64_t)(at + used + 1);
            if (event == HTTP1_BAD || event == HTTP1_H2)
                return hash * 31 + (uint64_t)event;
        } while (event != HTTP1_MORE);
        fuzz_check(used == length);
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t piece = (size_t)(data[0] >> 4) + 1;
    uint64_t whole = trace(data + 1, size - 1, data[0], size);
    fuzz_check(trace(data + 1, size - 1, data[0], piece) == whole);
    return 0;
}
