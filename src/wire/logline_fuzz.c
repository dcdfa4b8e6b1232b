/* A line of output is refused, or its parts point into it and make up the whole line. */
#include <string.h>

#include "base/str.h"
#include "wire/fuzz_fixture.h"
#include "wire/logline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct logline line;
    if (!logline_parse(bytes, size, &line))
        return 0;
    fuzz_check(line.time == bytes && line.time_length <= size);
    fuzz_check(line.text + line.length == bytes + size);
    struct str again;
    str_init(&again, size + 1);
    str_append_bytes(&again, line.time, line.time_length);
    str_append(&again, line.is_stderr ? " stderr " : " stdout ");
    str_append(&again, line.is_full ? "F " : "P ");
    str_append_bytes(&again, line.text, line.length);
    /* The space after the tag may be missing from an empty line. */
    fuzz_check(!str_failed(&again) && (again.length == size || again.length == size + 1));
    fuzz_check(memcmp(str_text(&again), bytes, size) == 0);
    str_done(&again);
    return 0;
}
