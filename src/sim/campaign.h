/*
 * Many runs at once: policies, loads and seeds on one trace, by several threads. What comes out
 * does not depend on how many. With a directory, every run that is done is kept there, and the same
 * campaign started again goes on with those that are not.
 *
 * Files, for each run NAME = POLICY[-PART…]_load-L_seed-S:
 *   NAME.workloads.csv  NAME.course.csv  NAME.devices.csv   to be read (result_file.h)
 *   NAME.result                                             the same, to resume
 * and summary.csv, one row a run, when all are done.
 */
#pragma once
#include "sim/engine.h"

enum {
    CAMPAIGN_VARIANTS_MAX = 64,
    CAMPAIGN_LOADS_MAX = 16,
    CAMPAIGN_SEEDS_MAX = 1000,
    CAMPAIGN_THREADS_MAX = 64,
    CAMPAIGN_NAME_MAX = 128,
};

struct campaign_variant {
    const struct policy *policy;
    struct policy_options options;
};
/* "gpumux", or without parts: "iadeep-tuner-predictor". -ERR_INVALID, with what there is. */
int campaign_variant_parse(struct error *e, const char *text, struct campaign_variant *ret_variant);

/* All borrowed until campaign_free(). */
struct campaign_config {
    struct engine_config engine; /* but for trace, policy, options, seed, ended and stop */
    const struct trace *trace;   /* at rate 1 */
    size_t variant_count;
    struct campaign_variant variants[CAMPAIGN_VARIANTS_MAX];
    size_t rate_count; /* at least one of these */
    double rates[CAMPAIGN_LOADS_MAX];
    uint64_t seed; /* of the first run; the next have seed + 1, … */
    size_t seed_count;
    int thread_count;
    const char *directory; /* NULL: nothing is kept */
};

struct campaign;

struct campaign_run {
    char name[CAMPAIGN_NAME_MAX];
    const struct campaign_variant *variant;
    double rate;
    uint64_t seed;
    bool is_done, is_resumed;
    struct result result; /* of a run that is done */
};

/* Makes the runs, and loads those that are in the directory already, which is made if it is not
 * there. -ERR_INVALID when two runs would have one name, -ERR_IO, -ERR_NO_MEMORY. */
int campaign_new(struct error *e, const struct campaign_config *config, struct campaign **ret);
/* Starts the threads. -ERR_UNAVAILABLE when none can be. */
int campaign_start(struct error *e, struct campaign *c);
/* The part that is done, 0 to 1. From any thread. */
double campaign_progress(const struct campaign *c);
/* The part that was there already when the campaign was made. */
double campaign_resumed(const struct campaign *c);
/* Some thread has not ended. */
bool campaign_is_running(const struct campaign *c);
/* All runs end soon. From any thread. */
void campaign_stop(struct campaign *c);
/* Waits for the threads, and writes summary.csv. -ERR_UNAVAILABLE when it was stopped; the error of
 * the first run that failed. */
int campaign_join(struct error *e, struct campaign *c);
/* By rate, then seed, then variant: as configured. Valid until campaign_free(). */
const struct campaign_run *campaign_runs(const struct campaign *c, size_t *ret_count);
void campaign_free(struct campaign *c);
