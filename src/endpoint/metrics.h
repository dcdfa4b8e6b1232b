/*
 * Metrics in the text format that Prometheus reads. A family is begun once, then its samples
 * follow.
 *
 *   metrics_family(out, "gpumux_workloads", METRIC_GAUGE, "Workloads by state.");
 *   metrics_sample(out, "gpumux_workloads", 3, "state", "running", NULL);
 */
#pragma once
#include "base/str.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

void metrics_family(struct str *out, const char *name, enum metric_type type, const char *help);
/* Then pairs of label name and value (any text), ended by NULL. */
void metrics_sample(struct str *out, const char *name, double value, ...) __attribute__((sentinel));
