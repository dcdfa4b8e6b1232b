/*
 * Divides a device between tasks and services when no latency curve of the services is known.
 *
 * Time (mode T): a service may use every SM; tasks are gated and windowed around its requests.
 * Space (mode S): tasks get the SMs that the service will most likely leave, and continue while it
 * works. The mode depends on the fraction of time that the service is busy.
 *
 * Plain arithmetic on plain data; times are passed in, all of them by the wall clock. The knowledge
 * about a service (struct share_service) may be kept in a file and used by another process.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHARE_INTERVAL_MS = 5 * 60 * 1000, /* interval with its own share */
    SHARE_INTERVALS = 24 * 60 / 5,     /* of a day */
    SHARE_LEAST_PERCENT = 10,
    SHARE_MOST_PERCENT = 90,
    SHARE_MODE_KEPT_MS = 10 * 60 * 1000,
    SHARE_OFF_PERCENT = 20,       /* least change of a share that justifies a restart of a task */
    SHARE_RATE_SLACK_PERCENT = 5, /* smaller differences of share and grant are ignored */
};

/* ---- one service ---- */

/*
 * A service's own SM activity. Beside others it cannot be measured; it is estimated as the activity
 * alone per busy time, times the present busy fraction.
 */
struct share_activity {
    double solo_percent; /* per busy time; < 0: never seen alone */
};
void share_activity_init(struct share_activity *a);
/* Adds a sample of the whole device (sm_percent < 0: none); `alone`: no other workload was there.
 * Returns the service's activity in percent, or its upper bound for a service never seen alone.
 * Returns -1 if busy_fraction is unknown (< 0). */
double share_activity_sample(struct share_activity *a, double sm_percent, double busy_fraction,
                             bool alone);

/* The 95th percentile of that activity, for each five minutes of a day. */
struct share_forecast {
    int64_t interval; /* number of the present interval since 1970; 0: none yet */
    uint32_t histogram[101], samples;
    int8_t p95_percent[SHARE_INTERVALS]; /* by time of day */
    int64_t measured[SHARE_INTERVALS];   /* interval of each value */
};
void share_forecast_init(struct share_forecast *f);
void share_forecast_sample(struct share_forecast *f, int64_t wall_ms, double percent);
/* Returns the forecast for the next five minutes: the larger of the last value and the one at the
 * same time yesterday. Returns -1 without either. */
int share_forecast_percent(const struct share_forecast *f, int64_t wall_ms);

enum share_mode { SHARE_TIME, SHARE_SPACE };

/* The mode that suits a service, chosen again whenever the minimum time of a mode has passed, by
 * how busy the service was in that time. */
struct share_choice {
    int32_t mode;             /* enum share_mode */
    int64_t since_ms;         /* start of the present period; 0: not started */
    double busy_ms, known_ms; /* in this period */
    double busy_fraction;     /* of the previous period; < 0: unknown */
};
struct share_facts {
    int64_t kept_ms;      /* least time between changes of the mode */
    int64_t elapsed_ms;   /* period of busy_fraction; 0: first look, which starts the period */
    double busy_fraction; /* of the service, 0…1; < 0: unknown */
};
void share_choice_init(struct share_choice *c);
/* Returns whether c->mode changed. */
bool share_choose(struct share_choice *c, int64_t wall_ms, const struct share_facts *facts);

/* All knowledge about a service. */
struct share_service {
    uint64_t workload; /* 0: none */
    int64_t seen_ms;   /* time of the last look */
    struct share_activity activity;
    struct share_forecast forecast;
    struct share_choice choice;
};
void share_service_init(struct share_service *s, uint64_t workload);
/* Returns whether values read from a file are safe to compute with. */
bool share_service_is_sane(const struct share_service *s);

struct share_look {
    struct share_facts facts;
    double sm_percent; /* of the device; < 0: unknown */
    bool alone;
};
/* Returns whether the mode changed. */
bool share_service_look(struct share_service *s, int64_t wall_ms, const struct share_look *look);

/* ---- a device and its tasks ---- */

struct share_division {
    enum share_mode mode; /* space only if it suits every service there */
    int forecast_percent; /* activity of all services in the next five minutes; -1: unknown */
    int task_count;       /* tasks that share the rest in mode space; set by the caller */
};
void share_divide(const struct share_service *const services[], size_t count, int64_t wall_ms,
                  struct share_division *ret);

/* Returns the share of a task that starts now, beside services with this joint forecast, as one of
 * task_count tasks in mode space. MPS limits each task, not all of them together. */
int share_of_task_percent(int forecast_percent, int task_count);
/* Returns the least whole percentage with which the driver, which rounds down, gives as many SMs as
 * this percentage rounded up. sm_count 0: unknown; returns the percentage unchanged. */
int share_in_whole_sms(int percent, int sm_count);
/* A task with kernels too long for a gate always shares in space. */
enum share_mode share_mode_of_task(enum share_mode mode, bool is_coarse);
/* Returns the rate limit in permille of a task in mode S that started with more SMs
 * (started_percent) than are left now. 0: no limit. */
int share_rate_permille(const struct share_division *division, int started_percent);

/* The share of a running task cannot change. */
struct share_drift {
    int64_t since_ms; /* start of the deviation; 0: none */
};
/* Returns whether the share has deviated by SHARE_OFF_PERCENT or more for kept_ms from the share
 * that the task would start with now. */
bool share_drifts(struct share_drift *d, int64_t wall_ms, int64_t kept_ms, int started_percent,
                  int wanted_percent);
