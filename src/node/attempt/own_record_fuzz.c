/* The agent's own record of an attempt: the first line has the terms, the rest the state. An
 * accepted record is written as it was read, and can be described. */
#include <string.h>

#include "node/attempt/own_record.h"
#include "wire/fuzz_fixture.h"

enum { WRITTEN_MAX = 64 << 10 };

static void check_terms(const struct own_record *record, size_t seed)
{
    struct own_record again;
    struct str first, second;
    char said[WORKLOAD_TEXT_MAX];
    const struct terms *terms = &record->terms;
    fuzz_check(terms->device_count >= 0 && terms->device_count <= WORKLOAD_DEVICES_MAX);
    fuzz_check(0 <= terms->share_min_percent &&
               terms->share_min_percent <= terms->share_max_percent &&
               terms->share_max_percent <= 100);
    for (enum terms_loaded loaded = LOADED_BY_ALL; loaded <= LOADED_BY_NONE; loaded++) {
        const struct terms_facts facts = {.loaded = loaded, .is_unlisted = seed % 2};
        fuzz_check(strlen(terms_describe(terms, &facts, said)) < sizeof said);
    }
    str_init(&first, WRITTEN_MAX);
    str_init(&second, WRITTEN_MAX);
    fuzz_check(own_terms_write(record, &first) == 0);
    fuzz_check(own_terms_parse(NULL, str_text(&first), first.length, &again) == 0);
    fuzz_check(own_terms_write(&again, &second) == 0);
    fuzz_check(str_equal(str_text(&first), str_text(&second)));
    str_done(&first);
    str_done(&second);
}

static void check_state(const char *text, size_t length)
{
    struct own_record record = {.terms = {.has_mps = true, .share_max_percent = 100}};
    struct attempt_kept kept = {.report = {.workload = 7, .attempt = 1}};
    struct error e = {0};
    struct str first, second;
    int r = own_state_parse(&e, text, length, &record, &kept);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r < 0)
        return;
    fuzz_check(record.moved_count <= CHECKPOINT_PROCESSES_MAX && kept.report.workload == 7);
    fuzz_check(kept.without_mps == !record.terms.has_mps);
    str_init(&first, WRITTEN_MAX);
    str_init(&second, WRITTEN_MAX);
    fuzz_check(own_state_write(&record, &kept, &first) == 0);
    fuzz_check(own_state_parse(NULL, str_text(&first), first.length, &record, &kept) == 0);
    fuzz_check(own_state_write(&record, &kept, &second) == 0);
    fuzz_check(str_equal(str_text(&first), str_text(&second)));
    str_done(&first);
    str_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
    size_t first = end ? (size_t)(end - text) : size;
    struct own_record record;
    struct error e = {0};
    int r = own_terms_parse(&e, text, first, &record);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r == 0)
        check_terms(&record, size);
    if (end)
        check_state(end + 1, size - first - 1);
    return 0;
}
