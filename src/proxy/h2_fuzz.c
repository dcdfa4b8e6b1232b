/* Any bytes as frames: the frames do not depend on how the bytes are divided. The first byte
 * chooses the size of the pieces, and whether the preface comes first. */
#include "proxy/h2.h"
#include "proxy/proxy_fuzz.h"

static uint64_t trace(const uint8_t *data, size_t size, bool has_preface, size_t piece)
{
    struct h2_reader r;
    uint64_t hash = 0;
    h2_init(&r, has_preface ? 0 : H2_PREFACE_BYTES);
    for (size_t at = 0; at < size; at += piece) {
        size_t length = size - at < piece ? size - at : piece, used = 0, step;
        enum h2_event event;
        do {
            event = h2_next(&r, (const char *)data + at + used, length - used, &step);
            used += step;
            fuzz_check(used <= length);
            if (event == H2_BAD)
                return hash + 1;
            if (event == H2_FRAME)
                hash = hash * 31 + r.frame.stream + r.frame.length + r.frame.type + at + used;
        } while (event == H2_FRAME);
        fuzz_check(used == length);
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool has_preface = data[0] & 1;
    uint64_t whole = trace(data + 1, size - 1, has_preface, size);
    fuzz_check(trace(data + 1, size - 1, has_preface, (size_t)(data[0] >> 1) + 1) == whole);
    return 0;
}
