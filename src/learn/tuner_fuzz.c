/* Any bytes as a saved search, then as the payload of a well-sealed one, which then goes on. */
#include <stdint.h>
#include <stdlib.h>

#include "learn/stored.h"
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
    struct str sealed;
    load(data, size);
    str_init(&sealed, 2 * TUNER_STORED_MAX);
    size_t start = stored_begin(&sealed, "tune", 1);
    str_append_bytes(&sealed, data, size);
    stored_end(&sealed, start);
    if (!str_failed(&sealed))
        load(sealed.data, sealed.length);
    str_done(&sealed);
    return 0;
}
