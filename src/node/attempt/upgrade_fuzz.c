/* Files of an older agent: an accepted verdict fits, and an accepted suspension names processes. */
#include <string.h>

#include "node/attempt/own_record.h"
#include "node/attempt/upgrade.h"
#include "wire/fuzz_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct own_record own = {0};
    struct attempt_kept kept = {0};
    if (upgrade_parse_verdict(text, size, &kept)) {
        size_t length = strlen(kept.why);
        fuzz_check(kept.verdict < VERDICT_END && length + 2 <= size);
        fuzz_check(memcmp(text + size - 1 - length, kept.why, length) == 0);
    }
    if (upgrade_parse_suspension(text, size, &own, &kept)) {
        fuzz_check(own.moved_count <= CHECKPOINT_PROCESSES_MAX && kept.report.turn > 0);
        fuzz_check(kept.report.suspension != SUSPENSION_NONE && kept.place != PLACE_DEVICE);
    }
    return 0;
}
