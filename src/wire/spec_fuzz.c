/* A description is refused with a code and a text, or reads back equal. */
#include <string.h>

#include "base/str.h"
#include "wire/fuzz_fixture.h"
#include "wire/spec.h"

static void check_reads_back(struct arena *arena, const struct workload_spec *spec)
{
    struct str text, again;
    str_init(&text, SPEC_TEXT_MAX);
    str_init(&again, SPEC_TEXT_MAX);
    struct spec_list list;
    /* Escapes may make the text longer than a document may be. */
    if (spec_write(spec, &text) == 0) {
        fuzz_check(spec_parse(NULL, arena, str_text(&text), text.length, &list) == 0);
        fuzz_check(list.count == 1);
        fuzz_check(spec_write(&list.items[0], &again) == 0);
        fuzz_check(str_equal(str_text(&text), str_text(&again)));
    }
    str_done(&text);
    str_done(&again);
}

/* Uses the first line as KEY VALUE of a flag. */
static void check_flag(struct arena *arena, const uint8_t *data, size_t size)
{
    char line[256];
    size_t length = size < sizeof line - 1 ? size : sizeof line - 1;
    memcpy(line, data, length);
    line[length] = '\0';
    char *space = strchr(line, ' ');
    if (!space)
        return;
    *space = '\0';
    struct workload_spec spec;
    workload_spec_init(&spec);
    struct error e = {0};
    int r = spec_set(&e, arena, &spec, line, space + 1);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, 64 << 20);
    struct error e = {0};
    struct spec_list list = {0};
    int r = spec_parse(&e, &arena, (const char *)data, size, &list);
    fuzz_check(r == 0 ? list.count > 0 : r == -e.code && e.text[0] && !list.items);
    for (size_t i = 0; i < list.count && i < 4; i++)
        check_reads_back(&arena, &list.items[i]);
    check_flag(&arena, data, size);
    arena_done(&arena);
    return 0;
}
