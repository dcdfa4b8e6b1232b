/* The report of gpumux sim: report.html in the directory of --out. */
#pragma once
#include "cli/frame/options.h"

struct error;
struct campaign_config;
struct campaign_run;

/* Writes the report. `trace` and `nodes` are the texts of the options, or of their defaults.
 * Returns 0, -ERR_IO or -ERR_NO_MEMORY. */
int sim_report_write(struct error *e, const struct invocation *in, const char *trace,
                     const char *nodes, const struct campaign_config *config,
                     const struct campaign_run *runs);
