/* A verdict that is not refused is written as it was read. */
#include <string.h>

#include "node/attempt/verdict_file.h"
#include "wire/fuzz_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct verdict verdict;
    struct error e = {0};
    struct str again;
    int r = verdict_parse(&e, (const char *)data, size, &verdict);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r < 0)
        return 0;
    str_init(&again, VERDICT_FILE_MAX);
    fuzz_check(verdict_write(&verdict, &again) == 0);
    fuzz_check(again.length == size && memcmp(str_text(&again), data, size) == 0);
    str_done(&again);
    return 0;
}
