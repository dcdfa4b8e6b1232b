/* The report of gpumux sim: report.html, in the directory of --out. */
#pragma once
#include "cli/frame/options.h"

struct error;
struct campaign_config;
struct campaign_run;

/* `trace` and `nodes` are as they were said, or what is taken if nothing is. -ERR_IO,
 * -ERR_NO_MEMORY. */
int sim_report_write(struct error *e, const struct invocation *in, const char *trace,
                     const char *nodes, const struct campaign_config *config,
                     const struct campaign_run *runs);
