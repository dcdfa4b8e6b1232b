/*
 * Metrics in Prometheus' text format. A caller begins each family once, and then writes its
 * samples.
 *
 *   metrics_family(out, "gpumux_workloads", METRIC_GAUGE, "Workloads by state.");
 *   metrics_sample(out, "gpumux_workloads", 3, "state", "running", NULL);
 */
#pragma once
#include "base/str.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE };

void metrics_family(struct str *out, const char *name, enum metric_type type, const char *help);
/* Writes a sample. Pairs of label name and value (any text) follow, ended by NULL. */
void metrics_sample(struct str *out, const char *name, double value, ...) __attribute__((sentinel));
