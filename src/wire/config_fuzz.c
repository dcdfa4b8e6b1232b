/* A configuration is refused without effect, or its written form parses as equal. */
#include <string.h>

#include "wire/config.h"
#include "wire/fuzz_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct str first, second;
    arena_init(&arena, 64 << 20);
    str_init(&first, 1 << 20);
    str_init(&second, 1 << 20);
    struct config config, before;
    fuzz_check(config_default(&arena, &config) == 0);
    memcpy(&before, &config, sizeof before);
    struct error e = {0};
    int r = config_parse(&e, &arena, (const char *)data, size, &config);
    if (r < 0) {
        fuzz_check(r == -e.code && e.text[0]);
        fuzz_check(memcmp(&before, &config, sizeof before) == 0);
    } else {
        fuzz_check(config_write(&config, &first) == 0);
        fuzz_check(config_default(&arena, &config) == 0);
        fuzz_check(config_parse(&e, &arena, str_text(&first), first.length, &config) == 0);
        fuzz_check(config_write(&config, &second) == 0);
        fuzz_check(str_equal(str_text(&first), str_text(&second)));
    }
    str_done(&first);
    str_done(&second);
    arena_done(&arena);
    return 0;
}
