/* Any bytes as a saved curve, then as the payload of a well-sealed one. */
#include <stdint.h>
#include <stdlib.h>

#include "learn/pwl.h"
#include "learn/stored.h"

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
    struct str sealed;
    load(data, size);
    str_init(&sealed, 2 * PWL_STORED_MAX);
    size_t start = stored_begin(&sealed, "curv", 1);
    str_append_bytes(&sealed, data, size);
    stored_end(&sealed, start);
    if (!str_failed(&sealed))
        load(sealed.data, sealed.length);
    str_done(&sealed);
    return 0;
}
