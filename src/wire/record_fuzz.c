/* The first byte selects the record; a record that parses reads back equal. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/fuzz_fixture.h"
#include "wire/record.h"

static void fuzz_status(struct arena *arena, const char *text, struct str *first,
                        struct str *second)
{
    struct workload_status status;
    struct error e = {0};
    int r = record_parse_status(&e, arena, text, &status);
    fuzz_check(r == 0 || r == -e.code);
    if (r < 0)
        return;
    fuzz_check(record_write_status(&status, first) == 0);
    fuzz_check(record_parse_status(NULL, arena, str_text(first), &status) == 0);
    fuzz_check(record_write_status(&status, second) == 0);
}

static void fuzz_node(struct arena *arena, const char *text, struct str *first, struct str *second)
{
    struct node_info info;
    struct error e = {0};
    int r = record_parse_node(&e, arena, text, &info);
    fuzz_check(r == 0 || r == -e.code);
    if (r < 0)
        return;
    fuzz_check(record_write_node(&info, first) == 0);
    fuzz_check(record_parse_node(NULL, arena, str_text(first), &info) == 0);
    fuzz_check(record_write_node(&info, second) == 0);
}

static void fuzz_after(struct arena *arena, const char *text, struct str *first, struct str *second)
{
    struct after_id *after;
    size_t count;
    struct error e = {0};
    int r = record_parse_after(&e, arena, text, &after, &count);
    fuzz_check(r == 0 || r == -e.code);
    if (r < 0)
        return;
    fuzz_check(record_write_after(after, count, first) == 0);
    fuzz_check(record_parse_after(NULL, arena, str_text(first), &after, &count) == 0);
    fuzz_check(record_write_after(after, count, second) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct arena arena;
    struct str first, second;
    arena_init(&arena, 64 << 20);
    str_init(&first, 64 << 20);
    str_init(&second, 64 << 20);
    const char *text = arena_strndup(&arena, (const char *)data + 1, size - 1);
    if (text && data[0] == 's')
        fuzz_status(&arena, text, &first, &second);
    else if (text && data[0] == 'a')
        fuzz_after(&arena, text, &first, &second);
    else if (text)
        fuzz_node(&arena, text, &first, &second);
    fuzz_check(str_equal(str_text(&first), str_text(&second)));
    str_done(&first);
    str_done(&second);
    arena_done(&arena);
    return 0;
}
