/*
 * The cost of a training task by batch size: rows of a measured table, interpolated linearly.
 */
#pragma once
#include <stdio.h>

#include "base/error.h"

struct burn_profile {
    double step_ms;      /* duration of one step, alone on the device */
    double busy_percent; /* part of a step in which the device is busy */
    double sm_percent;   /* part of the SMs in use while the device is busy */
    double dram_percent; /* part of the memory bandwidth in use while the device is busy */
    double memory_mib;
};

/* Reads the rows of `model` from a table with the columns model, batch, iter_ms, mem_mib,
 * gr_active_pct, sm_active_pct, dram_pct (other columns are ignored), and sets *ret_profile to the
 * profile at *batch. A *batch of 0 becomes the smallest batch size of the table. Errors: -ERR_IO,
 * -ERR_SYNTAX, -ERR_NOT_FOUND (no such model), -ERR_INVALID (a batch size outside the measured
 * range), -ERR_TOO_LARGE (too many rows). */
int burn_profile_read(struct error *e, const char *path, const char *model, double *batch,
                      struct burn_profile *ret_profile);
/* Like burn_profile_read(), from an open file; path is for error messages. */
int burn_profile_parse(struct error *e, FILE *file, const char *path, const char *model,
                       double *batch, struct burn_profile *ret_profile);
