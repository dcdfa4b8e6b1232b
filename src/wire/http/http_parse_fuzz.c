/*
 * The response parser on any bytes. The first byte is the size of the pieces in which the parser
 * gets the rest. Any size must give the same outcome as one piece.
 */
#include <stdint.h>

#include "base/hash.h"
#include "wire/http/http_parse.h"
#include "wire/logline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int error, status;
    bool done;
    uint64_t body_hash, body_bytes;
};

static int add_body(void *arg, const char *bytes, size_t length)
{
    struct outcome *out = arg;
    for (size_t i = 0; i < length; i++)
        out->body_hash = hash_u64(out->body_hash ^ (uint8_t)bytes[i]);
    out->body_bytes += length;
    struct logline line;
    (void)logline_parse(bytes, length, &line);
    return 0;
}

static struct outcome parse(const char *bytes, size_t length, size_t step)
{
    struct outcome out = {0};
    struct http_parser p;
    http_parser_init(&p, add_body, &out);
    size_t at = 0;
    while (at < length && out.error == 0 && !http_parser_is_done(&p)) {
        size_t used = 0;
        out.error =
            http_parser_feed(NULL, &p, bytes + at, length - at < step ? length - at : step, &used);
        at += used;
    }
    if (out.error == 0)
        out.error = http_parser_end(NULL, &p);
    out.done = http_parser_is_done(&p);
    if (http_parser_head(&p))
        out.status = http_parser_head(&p)->status;
    http_parser_done(&p);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *bytes = (const char *)data + 1;
    struct outcome whole = parse(bytes, size - 1, size);
    struct outcome pieces = parse(bytes, size - 1, (size_t)data[0] % 64 + 1);
    if ((whole.error == 0) != (pieces.error == 0) || whole.done != pieces.done)
        __builtin_trap();
    if (whole.error == 0 && (whole.body_hash != pieces.body_hash || !whole.done))
        __builtin_trap();
    return 0;
}
