/*
 * Arrival processes: when each request is due. Pure: the same words, limits and seed give the same
 * arrivals.
 *
 * Text of a process (--arrivals):
 *   poisson                    exponential gaps at a constant rate
 *   uniform                    equal gaps
 *   diurnal[:PERIOD[:SWING]]   Poisson; the rate is RATE · (1 - SWING · cos(2π t / PERIOD)), in
 *                              ARRIVALS_DIURNAL_STEPS steps a period. PERIOD defaults to the whole
 *                              run, SWING (0 to 1) to 0.8
 *   step:RATE@TIME,…           Poisson at --rate, and from each TIME on at that RATE
 *   trace:FILE[:COLUMN]        CSV (wire/csv.h) with the column t_s, ascending seconds. With COLUMN
 *                              or else a column `rate`: Poisson at the rate of that column, from
 *                              t_s on. Without both: t_s are the times of the arrivals
 *
 * A RATE is "150/s", "90/m", "20/h", or a number per second.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/rng.h"

enum {
    ARRIVALS_WORDS_STEPS_MAX = 64,
    ARRIVALS_DIURNAL_STEPS = 288,
    ARRIVALS_TRACE_ROWS_MAX = 4 << 20,
    ARRIVALS_PATH_MAX = 1024,
    ARRIVALS_COLUMN_MAX = 64,
};
#define ARRIVALS_RATE_MAX      1e6   /* per second */
#define ARRIVALS_RUN_DEFAULT_S 10.0  /* without seconds, requests and a trace */
#define ARRIVALS_SECONDS_MAX   3.2e7 /* one year */

enum arrivals_kind {
    ARRIVALS_POISSON,
    ARRIVALS_UNIFORM,
    ARRIVALS_DIURNAL,
    ARRIVALS_STEP,
    ARRIVALS_TRACE,
};

/* The rate from a time on. */
struct arrivals_step {
    double at_s, rate_per_s;
};

/* A parsed process: plain data. */
struct arrivals_words {
    enum arrivals_kind kind;
    double period_s, swing; /* diurnal; period 0: the whole run */
    size_t step_count;      /* step */
    struct arrivals_step steps[ARRIVALS_WORDS_STEPS_MAX];
    char path[ARRIVALS_PATH_MAX], column[ARRIVALS_COLUMN_MAX]; /* trace; column "": default */
};

struct arrivals_limits {
    double rate_per_s; /* 0: not given. A trace of rates is scaled to this mean rate */
    double seconds;    /* 0: not given */
    uint64_t requests; /* 0: no limit */
    double speed;      /* a trace passes so many times as fast; the rates of a trace stay as they
                        * are */
    uint64_t seed;
};

/* Members are private to arrivals.c, except those with a comment. */
struct arrivals {
    struct rng rng;
    bool is_uniform;
    size_t step_count, step;
    struct arrivals_step *steps; /* owned; the first step starts at 0 */
    double period_s;             /* the steps repeat; 0: the last step lasts */
    double per_cycle;            /* mean number of arrivals in a period */
    double cycle_s, at_s;        /* start of the period; time of the last arrival */
    size_t time_count;
    double *times; /* owned; a trace of arrivals */
    double end_s;  /* the run ends here, or after `requests` */
    uint64_t requests;
    uint64_t count;    /* arrivals returned so far */
    double mean_per_s; /* mean rate of the plan; 0 for a trace of arrivals without an end */
};

int arrivals_parse_rate(struct error *e, const char *text, double *ret_per_s);
int arrivals_parse(struct error *e, const char *text, struct arrivals_words *ret);
/* Makes a process. `trace` is the content of the file of a trace. Fails with -ERR_INVALID for
 * limits that the process cannot use, and with the errors of csv.h. */
int arrivals_init(struct error *e, const struct arrivals_words *words,
                  const struct arrivals_limits *limits, const char *trace, size_t trace_length,
                  struct arrivals *ret);
void arrivals_done(struct arrivals *a);
/* Returns the time of the next arrival, since the start of the run; false: no further arrival. */
bool arrivals_next(struct arrivals *a, int64_t *ret_due_ns);
