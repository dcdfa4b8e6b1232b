/* A list of kernels is refused with a reason, or gives kernels within bounds. */
#include <stdint.h>
#include <stdlib.h>

#include "workloads/burn_kernels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!file)
        return 0;
    static struct burn_kernels kernels;
    struct error e = {0};
    int r = burn_kernels_parse(&e, file, "list", "task", &kernels);
    fclose(file);
    if (r < 0) {
        if (r != -(int)e.code || !e.text[0])
            abort();
        return 0;
    }
    if (kernels.count == 0 || kernels.count > BURN_KERNELS_MAX || !(burn_kernels_ms(&kernels) > 0))
        abort();
    for (size_t i = 0; i < kernels.count; i++) {
        const struct burn_kernel *kernel = &kernels.list[i];
        if (!(kernel->block_ms >= 0 && kernel->block_ms <= kernel->duration_ms) ||
            !(kernel->sm_percent >= 0 && kernel->sm_percent <= 100))
            abort();
    }
    return 0;
}
