/*
 * How a task and services divide a device when no latency curve of the service is known.
 *
 * Time (mode T): the service may use every SM, tasks are gated and windowed around its requests. Space
 * (mode S): tasks get the SMs that the service will most likely leave. Which of them depends on how much
 * of the time the service is busy.
 *
 * Plain arithmetic on plain data; times are passed in.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    SHARE_INTERVAL_MS = 5 * 60 * 1000, /* for which a share is chosen */
    SHARE_INTERVALS = 24 * 60 / 5,     /* of a day */
    SHARE_LEAST_PERCENT = 10,
    SHARE_MOST_PERCENT = 90,
    SHARE_MODE_KEPT_MS = 10 * 60 * 1000,
};

/*
 * A service's own SM activity. While others run nobody can measure it; it is what it was alone per time
 * that it was busy, times how much it is busy now.
 */
struct share_activity {
    double solo_percent; /* per busy time; < 0: it was never seen alone */
};
void share_activity_init(struct share_activity *a);
/* A sample of the whole device; `alone`: the service had it for itself. Returns the service's activity in
 * percent, -1 when nothing is known of it. */
double share_activity_sample(struct share_activity *a, double sm_percent, double busy_fraction,
                             bool alone);

/* The 95th percentile of that activity, by five minutes, over a day. */
struct share_forecast {
    int64_t interval; /* number of the present one since 1970; 0: none yet */
    uint32_t histogram[101], samples;
    int8_t p95_percent[SHARE_INTERVALS]; /* by time of day */
    int64_t measured[SHARE_INTERVALS];   /* the interval that it is of */
};
void share_forecast_init(struct share_forecast *f);
void share_forecast_sample(struct share_forecast *f, int64_t wall_ms, double percent);
/* Of the coming five minutes: the larger of the last ones and of the same time yesterday. -1: there is
 * neither. */
int share_forecast_percent(const struct share_forecast *f, int64_t wall_ms);

/* The share of a task that starts now beside services with this forecast in sum. */
int share_of_task_percent(int forecast_percent);

enum share_mode { SHARE_TIME, SHARE_SPACE };

struct share_choice {
    enum share_mode mode;
    int64_t since_ms; /* < 0: not yet chosen */
};
struct share_facts {
    double busy_fraction; /* of the service, 0…1 */
    bool streams_tokens;  /* its requests are long streams: time is what they need */
    bool coarse;          /* a task there has kernels too long for a gate */
};
void share_choice_init(struct share_choice *c);
/* Changes at most every SHARE_MODE_KEPT_MS; answers the mode that holds. */
enum share_mode share_choose(struct share_choice *c, int64_t now_ms,
                             const struct share_facts *facts);
