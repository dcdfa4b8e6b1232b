/*
 * How tasks and services divide a device when no latency curve of the services is known.
 *
 * Time (mode T): a service may use every SM, tasks are gated and windowed around its requests.
 * Space (mode S): tasks get the SMs that it will most likely leave, and go on while it works. Which
 * of them depends on how much of the time the service is busy.
 *
 * Plain arithmetic on plain data; times are passed in, all of them of the wall clock. What is
 * learned of a service (struct share_service) may be kept in a file and used by another process.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHARE_INTERVAL_MS = 5 * 60 * 1000, /* for which a share is chosen */
    SHARE_INTERVALS = 24 * 60 / 5,     /* of a day */
    SHARE_LEAST_PERCENT = 10,
    SHARE_MOST_PERCENT = 90,
    SHARE_MODE_KEPT_MS = 10 * 60 * 1000,
    SHARE_OFF_PERCENT = 20,       /* a task that starts again would get so much more, or less */
    SHARE_RATE_SLACK_PERCENT = 5, /* less than that between a share and its grant is let be */
};

/* ---- one service ---- */

/*
 * A service's own SM activity. While others run nobody can measure it; it is what it was alone per
 * time that it was busy, times how much it is busy now.
 */
struct share_activity {
    double solo_percent; /* per busy time; < 0: it was never seen alone */
};
void share_activity_init(struct share_activity *a);
/* A sample of the whole device (sm_percent < 0: none); `alone`: the service had it for itself.
 * Returns the service's activity in percent; of one that was never seen alone the most that it can
 * be. -1: its busy fraction is not known (< 0), so nothing is. */
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
/* Of the coming five minutes: the larger of the last ones and of the same time yesterday. -1: there
 * is neither. */
int share_forecast_percent(const struct share_forecast *f, int64_t wall_ms);

enum share_mode { SHARE_TIME, SHARE_SPACE };

/* Which mode suits a service: looked at anew whenever the time has passed for which a mode is kept,
 * by how busy the service was in that time. */
struct share_choice {
    int32_t mode;             /* enum share_mode */
    int64_t since_ms;         /* when this time began; 0: not yet */
    double busy_ms, known_ms; /* in it */
    double busy_fraction;     /* of the time before; < 0: it was not known */
};
struct share_facts {
    int64_t kept_ms;      /* a mode changes at most so often */
    int64_t elapsed_ms;   /* that busy_fraction is of; 0: a first look, from which on it counts */
    double busy_fraction; /* of the service, 0…1; < 0: not known */
};
void share_choice_init(struct share_choice *c);
/* True: c->mode is another one now. */
bool share_choose(struct share_choice *c, int64_t wall_ms, const struct share_facts *facts);

/* All that is learned of a service. */
struct share_service {
    uint64_t workload; /* 0: none */
    int64_t seen_ms;   /* the last look at it */
    struct share_activity activity;
    struct share_forecast forecast;
    struct share_choice choice;
};
void share_service_init(struct share_service *s, uint64_t workload);
/* What was read from a file is of use: no number in it breaks the arithmetic. */
bool share_service_is_sane(const struct share_service *s);

struct share_look {
    struct share_facts facts;
    double sm_percent; /* of its device; < 0: not known */
    bool alone;
};
/* True: its mode changed. */
bool share_service_look(struct share_service *s, int64_t wall_ms, const struct share_look *look);

/* ---- a device and its tasks ---- */

struct share_division {
    enum share_mode mode; /* space only if it suits every service there */
    int forecast_percent; /* activity of all services in the coming five minutes; -1: not known */
    int task_count;       /* that share what is left of it in space; set by the caller */
};
void share_divide(const struct share_service *const services[], size_t count, int64_t wall_ms,
                  struct share_division *ret);

/* The share of a task that starts now beside services with this forecast in sum, one of task_count
 * that share in space: MPS limits each of them, and nobody all of them together. */
int share_of_task_percent(int forecast_percent, int task_count);
/* The least whole percentage with which the driver, who rounds down, gives as many SMs as this one
 * rounded up. sm_count 0: not known, and the same is returned. */
int share_in_whole_sms(int percent, int sm_count);
/* Kernels too long for a gate: such a task shares in space whatever the others do. */
enum share_mode share_mode_of_task(enum share_mode mode, bool is_coarse);
/* The part of the device that a task in mode S is held to by its rate, because it started with more
 * of the SMs (started_percent) than are left to it now. 0: nothing holds it. */
int share_rate_permille(const struct share_division *division, int started_percent);

/* What a task started with cannot change while it runs. */
struct share_drift {
    int64_t since_ms; /* when it was first seen to be off; 0: it is not */
};
/* True: it has been off by SHARE_OFF_PERCENT or more for kept_ms, from what it would start
 * with now. */
bool share_drifts(struct share_drift *d, int64_t wall_ms, int64_t kept_ms, int started_percent,
                  int wanted_percent);
