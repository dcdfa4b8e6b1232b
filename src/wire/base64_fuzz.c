/* A text is refused, or encodes to itself again; any bytes survive encoding and decoding. */
#include <string.h>

#include "base/error.h"
#include "wire/base64.h"
#include "wire/fuzz_fixture.h"

enum { MEMORY_MAX = 64 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct str text;
    void *bytes;
    size_t length;
    arena_init(&arena, MEMORY_MAX);
    str_init(&text, MEMORY_MAX);
    int r = base64_decode(&arena, (const char *)data, size, &bytes, &length);
    fuzz_check(r == 0 || r == -ERR_INVALID);
    if (r == 0) {
        base64_append(&text, bytes, length);
        fuzz_check(text.length == size && (!size || memcmp(str_text(&text), data, size) == 0));
    }
    str_done(&text);
    str_init(&text, MEMORY_MAX);
    base64_append(&text, data, size);
    fuzz_check(base64_decode(&arena, str_text(&text), text.length, &bytes, &length) == 0);
    fuzz_check(length == size && (!size || memcmp(bytes, data, size) == 0));
    str_done(&text);
    arena_done(&arena);
    return 0;
}
