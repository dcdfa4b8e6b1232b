/* Any bytes as a saved memory model, then as the payload with a valid header and checksum. */
#include <stdint.h>
#include <stdlib.h>

#include "learn/memory.h"
#include "learn/stored_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const void *bytes, size_t length)
{
    struct memory_model m, again;
    struct error e = {0};
    if (memory_load(&e, bytes, length, &m) < 0)
        return;
    for (uint32_t batch = 1; batch < UINT32_MAX / 3; batch *= 3)
        if (m.count > 0 && memory_booking(&m, batch) < memory_predict(&m, batch))
            abort();
    struct str saved;
    str_init(&saved, MEMORY_STORED_MAX);
    memory_save(&m, &saved);
    if (str_failed(&saved) || memory_load(&e, saved.data, saved.length, &again) < 0 ||
        memory_booking(&again, 7) != memory_booking(&m, 7))
        abort();
    str_done(&saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stored_fuzz(data, size, "memo", 2 * MEMORY_STORED_MAX, load);
    return 0;
}
