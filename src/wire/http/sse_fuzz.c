/*
 * The parser of server-sent events on any bytes. The first byte is the size of the pieces in which
 * the parser gets the rest. Any size must give the same events.
 */
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "wire/http/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int error;
    uint64_t events, hash;
};

static int add_event(void *arg, const struct sse_event *event)
{
    struct outcome *out = arg;
    out->events++;
    out->hash = hash_bytes(event->data, strlen(event->data), out->hash);
    out->hash = hash_bytes(event->what, strlen(event->what), out->hash ^ event->id);
    return 0;
}

static struct outcome parse(const char *bytes, size_t length, size_t step)
{
    struct outcome out = {0};
    struct sse_parser p;
    sse_parser_init(&p, add_event, &out);
    for (size_t at = 0; at < length && out.error == 0; at += step)
        out.error = sse_parser_feed(&p, bytes + at, length - at < step ? length - at : step);
    sse_parser_done(&p);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    struct outcome whole = parse(bytes, size - 1, size);
    struct outcome pieces = parse(bytes, size - 1, (size_t)data[0] % 64 + 1);
    if (whole.error != pieces.error || whole.events != pieces.events || whole.hash != pieces.hash)
        __builtin_trap();
    return 0;
}
