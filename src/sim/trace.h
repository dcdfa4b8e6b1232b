/*
 * A trace: the workloads of a simulated run, in the order of submission.
 *
 * A trace is a table (wire/csv.h) with the columns
 *
 *   submit_s or gap_s    time of submission from any origin, or since the previous row
 *   duration_s           duration alone at the user's batch size
 *   gpus                 devices; 1 if the column is missing
 *   model, batch         model that is trained; drawn from the mix if the column is missing
 *
 * Other columns are ignored, and rows of `kind` service are skipped. The job lists of the Philly
 * cluster are therefore valid traces, and so is the workloads.csv of a run. A trace can also be
 * generated: "poisson", "bursty" (coefficient of variation of the gaps 2.8, as in Philly) or
 * "diurnal" (rate three times as high at noon as at midnight), with durations like those of tasks
 * for which users wait.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sim/tables.h"

enum {
    TRACE_ITEMS_MAX = 2000000,
    TRACE_DEVICES_MAX = 4096, /* of one workload */
    TRACE_MIX_MAX = TABLES_MODELS_MAX,
};

struct trace_item {
    double submit_s; /* since the first submission */
    double duration_s;
    double batch; /* the user's batch size */
    uint32_t model;
    int devices;
};

struct trace {
    size_t count;
    struct trace_item *items; /* by submit_s; owned */
};

/* Relative frequencies of models. */
struct trace_mix {
    size_t count;
    struct {
        uint32_t model;
        double batch, weight;
    } parts[TRACE_MIX_MAX];
};

/* Makes the mix of IADeep's evaluation, from the models in the tables. */
void trace_mix_default(const struct tables *t, struct trace_mix *ret_mix);
/* Parses "vgg16=3,bert:16=1": models, batch sizes if not the default, and weights. Returns
 * -ERR_INVALID. */
int trace_mix_parse(struct error *e, const char *text, const struct tables *t,
                    struct trace_mix *ret_mix);

/* Returns -ERR_SYNTAX, -ERR_INVALID (no row), -ERR_TOO_LARGE or -ERR_NO_MEMORY. */
int trace_parse(struct error *e, const char *text, size_t length, const struct tables *t,
                const struct trace_mix *mix, uint64_t seed, struct trace *ret_trace);
/* `kind` is one of the generators above; mean_gap_s > 0. Returns -ERR_INVALID or -ERR_NO_MEMORY. */
int trace_generate(struct error *e, const char *kind, size_t count, double mean_gap_s,
                   const struct trace_mix *mix, uint64_t seed, struct trace *ret_trace);
/*
 * Keeps the first `count` (> 0) items. A trace that is too short is repeated. Returns
 * -ERR_NO_MEMORY.
 */
int trace_resize(struct trace *t, size_t count);
/* Multiplies the arrival rate by `rate`. */
void trace_hasten(struct trace *t, double rate);
/* Returns the device-seconds that all workloads need, divided by the device-seconds between the
 * first and the last submission. */
double trace_load(const struct trace *t, size_t device_count);
void trace_done(struct trace *t);
