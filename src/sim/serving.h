/*
 * Services, in truth: how long a batch of requests takes, how many requests come, which of them are
 * late, and what is left of a device for tasks.
 *
 * A batch of b takes base + b · request with all SMs, of which it can use `width`; with a smaller
 * share it takes longer in proportion. Requests come at a mean rate times a shape over time
 * (data/request_rates.csv). The p99 of a request is the wait for its batch, and the batch's time
 * with queueing (algorithm 7's table of p99 sojourn over service time); the part that is later than
 * the SLO follows from an exponential tail through that p99.
 *
 * Three ways to divide a device:
 *   together  nobody is held: tasks delay the service as the contention model says, and it
 *             them while busy
 *   time      tasks stand still while the service is busy; it waits for what they have outstanding
 *   space     the service has a share of the SMs, tasks the rest
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "learn/pwl.h"
#include "sim/truth.h"

enum {
    SERVING_PROFILES_MAX = 16,
    SERVING_SHAPES = 3,
    SERVING_STEPS_MAX = 4096,
    SERVING_STEP_S = 600,
    SERVING_BATCHES = 5, /* 1, 2, 4, 8, 16 */
};
extern const uint32_t serving_batches[SERVING_BATCHES];

struct serving_profile {
    char name[TABLES_NAME_MAX];
    double base_ms, request_ms;
    double width, dram; /* parts of the device while it is busy */
    double memory_bytes;
    double rate_per_s, slo_ms;
    size_t like; /* the model whose kernels its kernels are like: how contention meets it */
};

/* Plain data, immutable once loaded. */
struct serving {
    size_t profile_count, step_count;
    struct serving_profile profiles[SERVING_PROFILES_MAX];
    double shapes[SERVING_SHAPES][SERVING_STEPS_MAX]; /* of the mean rate */
};

/* From services.csv and request_rates.csv. -ERR_SYNTAX, -ERR_TOO_LARGE, -ERR_INVALID. */
int serving_load(struct error *e, const struct tables *t, const char *profiles,
                 size_t profiles_length, const char *rates, size_t rates_length,
                 struct serving *ret_serving);
/* Requests a second of instance number `instance` at that time. */
double serving_rate(const struct serving *s, size_t profile, uint64_t instance, double time_s);

enum serving_mode { SERVING_TOGETHER, SERVING_TIME, SERVING_SPACE };

/* How a service fares at a rate, with a share, when a batch takes `slower` times as long. */
struct serving_state {
    uint32_t batch;
    double p99_ms, busy; /* part of the time */
    double late;         /* part of the requests */
};
struct serving_state serving_at(const struct serving_profile *p, double rate_per_s, double share,
                                double slower, double held_ms);
/* The smallest share with which the p99 stays below that part of its SLO; above 1: none. */
double serving_share(const struct serving_profile *p, double rate_per_s, double slower,
                     double part);
/* The latency of one batch over the share, as measured and fitted. */
void serving_curve(const struct serving_profile *p, uint32_t batch, double slower,
                   struct pwl_curve *ret_curve);

/* A device with one service and tasks. */
struct serving_device {
    enum serving_mode mode;
    struct serving_state state;
    double share;     /* of the service; 1 but for space */
    double available; /* part of the time, or of the SMs in space, that is the tasks' */
};
/*
 * What becomes of it if `mode` is taken. `tasks` are beside it; `throttle` is the part of their
 * time that they may use (1: all), `crowd` the part of the SMs that other services there keep busy.
 */
struct serving_device serving_divide(const struct truth *t, const struct hardware_gpu *gpu,
                                     const struct serving_profile *p, double rate_per_s,
                                     enum serving_mode mode, const struct truth_resident *tasks,
                                     size_t task_count, double throttle, double crowd);
/* The ways that a policy's system has besides letting them run together. */
struct serving_ways {
    bool time, space;
};
/* Of these ways the one with which the SLO holds and tasks are fastest; where none keeps it, the
 * one of the smallest p99. */
struct serving_device serving_choose(const struct truth *t, const struct hardware_gpu *gpu,
                                     const struct serving_profile *p, double rate_per_s,
                                     const struct serving_ways *ways,
                                     const struct truth_resident *tasks, size_t task_count,
                                     double throttle, double crowd);
/* How much longer a batch takes beside tasks that have other SMs: they share DRAM and caches. */
double serving_beside(const struct truth *t, const struct hardware_gpu *gpu,
                      const struct truth_resident *tasks, size_t task_count);
/* How much longer a task's iteration takes with only that part of the SMs. */
double serving_squeeze(const struct table_size *task, double available);
