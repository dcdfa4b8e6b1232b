/* A table of measurements is refused with a reason, or gives a profile of finite numbers within
 * bounds. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "workloads/burn_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_percent(double value)
{
    return value >= 0 && value <= 100;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!file)
        return 0;
    static const double batches[] = {0, 1, 96};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct error e = {0};
        struct burn_profile p;
        double batch = batches[i];
        rewind(file);
        int r = burn_profile_parse(&e, file, "table", "vgg16", &batch, &p);
        if (r < 0 ? r != -(int)e.code || !e.text[0]
                  : !isfinite(p.step_ms) || p.step_ms < 0 || !isfinite(p.memory_mib) ||
                        p.memory_mib < 0 || !is_percent(p.busy_percent) ||
                        !is_percent(p.sm_percent) || !is_percent(p.dram_percent))
            abort();
    }
    fclose(file);
    return 0;
}
