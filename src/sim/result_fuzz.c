/* Any bytes as a saved result, then as the payload with a valid header and checksum: rejected, or
 * saved again unchanged. */
#include <stdint.h>
#include <string.h>

#include "learn/stored.h"
#include "sim/result_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FINGERPRINT = 7 };

static void load(const uint8_t *data, size_t size)
{
    struct result r;
    struct str again;
    if (result_load(NULL, data, size, FINGERPRINT, &r) < 0)
        return;
    str_init(&again, RESULT_FILE_MAX);
    result_save(&r, FINGERPRINT, &again);
    if (again.length != size || memcmp(again.data, data, size) != 0)
        __builtin_trap();
    str_done(&again);
    result_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str sealed;
    load(data, size);
    str_init(&sealed, size + 64);
    size_t start = stored_begin(&sealed, "simr", 1);
    stored_put_u64(&sealed, FINGERPRINT);
    str_append_bytes(&sealed, data, size);
    stored_end(&sealed, start);
    load((const uint8_t *)sealed.data, sealed.length);
    str_done(&sealed);
    return 0;
}
