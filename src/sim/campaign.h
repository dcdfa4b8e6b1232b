/*
 * Many simulated runs of one trace: every combination of policies, loads and seeds, on several
 * threads. Results do not depend on the number of threads. A campaign with a directory stores every
 * finished run; the same campaign started again skips these runs.
 *
 * Files of each run NAME = POLICY[-PART…]_load-L_seed-S:
 *   NAME.workloads.csv  NAME.course.csv  NAME.devices.csv   for readers (result_file.h)
 *   NAME.result                                             the whole result, to resume
 * At the end, summary.csv gets one row per run.
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
/* Parses the name of a policy, such as "gpumux", or of a policy without some of its parts:
 * "iadeep-tuner-predictor" is iadeep without tuner and predictor. -ERR_INVALID lists the valid
 * names. */
int campaign_variant_parse(struct error *e, const char *text, struct campaign_variant *ret_variant);

/* All pointers are borrowed until campaign_free(). */
struct campaign_config {
    struct engine_config engine; /* without trace, policy, options, seed, ended and stop */
    const struct trace *trace;   /* at rate 1 */
    size_t variant_count;
    struct campaign_variant variants[CAMPAIGN_VARIANTS_MAX];
    size_t rate_count; /* at least 1 */
    double rates[CAMPAIGN_LOADS_MAX];
    uint64_t seed; /* of the first run; the next runs use seed + 1, … */
    size_t seed_count;
    int thread_count;
    const char *directory; /* NULL: nothing is stored */
};

struct campaign;

struct campaign_run {
    char name[CAMPAIGN_NAME_MAX];
    const struct campaign_variant *variant;
    double rate;
    uint64_t seed;
    bool is_done, is_resumed;
    struct result result; /* valid if is_done */
};

/* Creates the runs. Creates the directory if absent, and loads finished runs from it. Returns
 * -ERR_INVALID if two runs have the same name, -ERR_IO or -ERR_NO_MEMORY. */
int campaign_new(struct error *e, const struct campaign_config *config, struct campaign **ret);
/* Starts the threads. Returns -ERR_UNAVAILABLE if no thread can be started. */
int campaign_start(struct error *e, struct campaign *c);
/* Returns the finished fraction, 0 to 1. May be called from any thread. */
double campaign_progress(const struct campaign *c);
/* Returns the fraction that was finished before this campaign started. */
double campaign_resumed(const struct campaign *c);
/* Returns whether a thread is still running. */
bool campaign_is_running(const struct campaign *c);
/* Requests the end of all runs, without waiting. May be called from any thread. */
void campaign_stop(struct campaign *c);
/* Waits for the threads and writes summary.csv. Returns -ERR_UNAVAILABLE after campaign_stop(), or
 * the error of the first failed run. */
int campaign_join(struct error *e, struct campaign *c);
/* Returns the runs by rate, then seed, then variant, in the order of the configuration. Valid until
 * campaign_free(). */
const struct campaign_run *campaign_runs(const struct campaign *c, size_t *ret_count);
void campaign_free(struct campaign *c);
