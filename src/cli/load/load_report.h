/* The results of gpumux load as a table, and as JSON. */
#pragma once
#include "cli/load/load_plan.h"

/* Writes "812 us", "12.34 ms", "2.50 s". */
enum { LOAD_TIME_TEXT_MAX = 32 };
char *load_time_text(int64_t ns, char text[LOAD_TIME_TEXT_MAX]);
/* Returns the time over which requests were due, after the warm-up, in seconds. */
double load_measured_s(const struct load_plan *p);
/* Returns the answers with status 2xx per second, until the last answer. */
double load_answered_per_s(const struct load_plan *p);

void load_print_results(const struct load_plan *p);
void load_write_json(const struct load_plan *p, struct str *out);
