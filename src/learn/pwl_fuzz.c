/* Any bytes as a saved curve, then as the payload with a valid header and checksum. */
#include <stdint.h>
#include <stdlib.h>

#include "learn/pwl.h"
#include "learn/stored_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const void *bytes, size_t length)
{
    struct pwl_curve c;
    struct error e = {0};
    if (pwl_load(&e, bytes, length, &c) < 0)
        return;
    if (pwl_latency(&c, 1) < pwl_latency(&c, 100))
        abort();
    (void)pwl_share(&c, c.knee_latency);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stored_fuzz(data, size, "curv", 2 * PWL_STORED_MAX, load);
    return 0;
}
