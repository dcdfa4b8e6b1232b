/* An attempt's terms, as an agent finds them after a restart. What is not refused is written as it was
 * read, and can be said to people. */
#include <string.h>

#include "node/attempt/terms.h"
#include "wire/fuzz_check.h"

enum { WRITTEN_MAX = 64 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct terms terms;
    struct error e = {0};
    struct str first, second;
    char said[WORKLOAD_TEXT_MAX];
    int r = terms_parse(&e, (const char *)data, size, &terms);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r < 0)
        return 0;
    fuzz_check(terms.device_count >= 0 && terms.device_count <= WORKLOAD_DEVICES_MAX);
    fuzz_check(0 <= terms.share_min_percent && terms.share_min_percent <= terms.share_max_percent &&
               terms.share_max_percent <= 100);
    for (enum terms_loaded loaded = LOADED_BY_ALL; loaded <= LOADED_BY_NONE; loaded++) {
        const struct terms_facts facts = {.loaded = loaded, .is_unlisted = size % 2};
        fuzz_check(strlen(terms_describe(&terms, &facts, said)) < sizeof said);
    }
    str_init(&first, WRITTEN_MAX);
    str_init(&second, WRITTEN_MAX);
    fuzz_check(terms_write(&terms, &first) == 0);
    fuzz_check(terms_parse(NULL, str_text(&first), first.length, &terms) == 0);
    fuzz_check(terms_write(&terms, &second) == 0);
    fuzz_check(str_equal(str_text(&first), str_text(&second)));
    str_done(&first);
    str_done(&second);
    return 0;
}
