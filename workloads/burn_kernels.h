/* Lists of kernels: the kernels of one step of a task, or of one request of a service. */
#pragma once
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

enum { BURN_KERNELS_MAX = 512 };

struct burn_kernel {
    double duration_ms; /* duration alone on the device */
    double block_ms;    /* duration of each block; 0: as long as the kernel */
    double sm_percent, dram_percent;
};

struct burn_kernels {
    struct burn_kernel list[BURN_KERNELS_MAX];
    size_t count;
};

/* Reads the rows of `name` from a table with the columns workload, duration_us, block_us,
 * sm_permille and dram_permille, in this order (data/h200_mode_kernels.csv). Errors: -ERR_IO,
 * -ERR_SYNTAX, -ERR_NOT_FOUND (no such workload), -ERR_TOO_LARGE. */
int burn_kernels_read(struct error *e, const char *path, const char *name,
                      struct burn_kernels *ret_kernels);
/* Like burn_kernels_read(), from an open file; path is for error messages. */
int burn_kernels_parse(struct error *e, FILE *file, const char *path, const char *name,
                       struct burn_kernels *ret_kernels);
/* Returns the sum of the kernels' durations. */
double burn_kernels_ms(const struct burn_kernels *kernels);
