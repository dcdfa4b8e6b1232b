/* Any bytes as a saved search, then as the payload with a valid header and checksum, whose search
 * continues. */
#include <stdint.h>
#include <stdlib.h>

#include "learn/stored_fuzz.h"
#include "learn/tuner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const void *bytes, size_t length)
{
    struct tuner *t;
    struct error e = {0};
    uint32_t batches[TUNER_TASKS_MAX];
    if (tuner_load(&e, bytes, length, NULL, &t) < 0)
        return;
    struct str saved;
    str_init(&saved, TUNER_STORED_MAX);
    tuner_save(t, &saved);
    if (str_failed(&saved))
        abort();
    str_done(&saved);
    if (tuner_ask(t, batches) && tuner_tell(t, 1.5) < 0)
        abort();
    tuner_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stored_fuzz(data, size, "tune", 2 * TUNER_STORED_MAX, load);
    return 0;
}
