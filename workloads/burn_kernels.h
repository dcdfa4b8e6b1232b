/* Lists of kernels: what one step of a task or one request of a service is made of. */
#pragma once
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

enum { BURN_KERNELS_MAX = 512 };

struct burn_kernel {
    double duration_ms; /* alone on the device */
    double block_ms;    /* how long each of its blocks takes; 0: as long as the kernel */
    double sm_percent, dram_percent;
};

struct burn_kernels {
    struct burn_kernel list[BURN_KERNELS_MAX];
    size_t count;
};

/* Reads the rows of `name` from a table with the columns workload, duration_us, block_us,
 * sm_permille and dram_permille, in this order (data/h200_mode_kernels.csv). -ERR_IO, -ERR_SYNTAX,
 * -ERR_NOT_FOUND (no such workload), -ERR_TOO_LARGE. */
int burn_kernels_read(struct error *e, const char *path, const char *name,
                      struct burn_kernels *ret_kernels);
/* The same of an open file; path is for errors. */
int burn_kernels_parse(struct error *e, FILE *file, const char *path, const char *name,
                       struct burn_kernels *ret_kernels);
double burn_kernels_ms(const struct burn_kernels *kernels);
