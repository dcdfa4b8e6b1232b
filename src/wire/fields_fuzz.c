/* The first byte selects the table, the second the form. An input that decodes must encode to a
 * text that decodes and encodes to the same text. */
#include <stdlib.h>

#include "model/node.h"
#include "wire/fuzz_fixture.h"
#include "wire/objects.h"

enum { MEMORY_MAX = 64 << 20 };

static const struct fields *const tables[] = {
    &node_info_fields,      &device_fields,       &device_health_fields,
    &device_note_fields,    &device_usage_fields, &attempt_usage_fields,
    &attempt_report_fields, &attempt_fields,      &workload_status_fields,
};
static const enum fields_form forms[] = {FIELDS_MESSAGE, FIELDS_STORED, FIELDS_FILE};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct fields *table =
        tables[(uint8_t)(data[0] - '0') % (sizeof tables / sizeof tables[0])];
    struct error e = {0};
    struct arena arena;
    struct str first, second, shown;
    const struct field_reader r = {
        .e = &e, .code = ERR_CORRUPT, .arena = &arena, .form = forms[(uint8_t)(data[1] - 'a') % 3]};
    void *object = malloc(table->bytes);
    arena_init(&arena, MEMORY_MAX);
    str_init(&first, MEMORY_MAX);
    str_init(&second, MEMORY_MAX);
    str_init(&shown, MEMORY_MAX);
    fuzz_check(object);
    int result = fields_parse(&r, table, (const char *)data + 2, size - 2, object);
    fuzz_check(result == 0 || (result == -e.code && e.text[0]));
    if (result == 0) {
        fuzz_check(fields_write(table, r.form, object, &first) == 0);
        fuzz_check(fields_parse(&r, table, str_text(&first), first.length, object) == 0);
        fuzz_check(fields_write(table, r.form, object, &second) == 0);
        fuzz_check(str_equal(str_text(&first), str_text(&second)));
        fuzz_check(fields_write(table, FIELDS_API, object, &shown) == 0);
    }
    free(object);
    str_done(&first);
    str_done(&second);
    str_done(&shown);
    arena_done(&arena);
    return 0;
}
