/*
 * Who comes when: the workloads of a simulated run, in the order of their submission.
 *
 * A trace is a table (wire/csv.h) with the columns
 *
 *   submit_s or gap_s    when, from any beginning; or how long after the one before
 *   duration_s           how long it takes alone at its user's batch size
 *   gpus                 devices; 1 where the column is missing
 *   model, batch         what it trains; drawn from the mix where the column is missing
 *
 * and any others, which are ignored; rows of the `kind` service are left out. So Philly's lists are
 * traces as they are, and so is the workloads.csv that a run writes. Or a trace is generated:
 * "poisson", "bursty" (the gaps' coefficient of variation is 2.8, as in Philly) or "diurnal" (the
 * rate is three times as high at noon as at midnight), with durations like those of tasks that
 * people wait for.
 */
#pragma once
#include <stdbool.h>
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
    double submit_s; /* from the first one's */
    double duration_s;
    double batch; /* its user's */
    uint32_t model;
    int devices;
};

struct trace {
    size_t count;
    struct trace_item *items; /* by submit_s; owned */
};

/* Which models come how often. */
struct trace_mix {
    size_t count;
    struct {
        uint32_t model;
        double batch, weight;
    } parts[TRACE_MIX_MAX];
};

/* The mix that IADeep was evaluated with, of the models that the tables have. */
void trace_mix_default(const struct tables *t, struct trace_mix *ret_mix);
/* "vgg16=3,bert:16=1": models, their batch size if it is not the usual, and weights.
 * -ERR_INVALID. */
int trace_mix_parse(struct error *e, const char *text, const struct tables *t,
                    struct trace_mix *ret_mix);

/* -ERR_SYNTAX, -ERR_INVALID (no row), -ERR_TOO_LARGE, -ERR_NO_MEMORY. */
int trace_parse(struct error *e, const char *text, size_t length, const struct tables *t,
                const struct trace_mix *mix, uint64_t seed, struct trace *ret_trace);
/* `kind` is one of those above; mean_gap_s > 0. -ERR_INVALID, -ERR_NO_MEMORY. */
int trace_generate(struct error *e, const char *kind, size_t count, double mean_gap_s,
                   const struct trace_mix *mix, uint64_t seed, struct trace *ret_trace);
/*
 * Keeps the first `count` (> 0); more than there are: the trace begins again after its end.
 * -ERR_NO_MEMORY.
 */
int trace_resize(struct trace *t, size_t count);
/* Arrivals come `rate` times as fast. */
void trace_hasten(struct trace *t, double rate);
/* Device-seconds that all of them want, over device-seconds from the first submission to
 * the last. */
double trace_load(const struct trace *t, size_t device_count);
void trace_done(struct trace *t);
