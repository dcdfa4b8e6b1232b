/*
 * True behaviour of services: the time of a batch of requests, the request rate, the fraction of
 * late requests, and the part of a device that remains for tasks.
 *
 * A batch of b requests takes base_ms + b · request_ms with all SMs. A batch can use the fraction
 * `width` of the SMs; with fewer SMs the time grows in proportion. Requests arrive at a mean rate
 * times a shape over time (data/request_rates.csv). The p99 latency is the time to fill a batch
 * plus the p99 sojourn time of a batch. A table gives the ratio of sojourn time to batch time for a
 * load. The fraction of requests later than the SLO follows from an exponential tail through that
 * p99.
 *
 * There are three ways to divide a device:
 *   together  no limits: tasks delay the service as the contention model says, and the
 *             service delays them while busy
 *   time      tasks stop while the service is busy; the service waits for the tasks'
 *             outstanding work
 *   space     the service has a share of the SMs, and tasks have the other SMs
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
    double width, dram; /* fractions of the device while busy */
    double memory_bytes;
    double rate_per_s, slo_ms;
    size_t like; /* model with similar kernels, for the contention model */
};

/* Plain data, immutable once loaded. */
struct serving {
    size_t profile_count, step_count;
    struct serving_profile profiles[SERVING_PROFILES_MAX];
    double shapes[SERVING_SHAPES][SERVING_STEPS_MAX]; /* relative to the mean rate */
};

/* Loads services.csv and request_rates.csv. Returns -ERR_SYNTAX, -ERR_TOO_LARGE or -ERR_INVALID. */
int serving_load(struct error *e, const struct tables *t, const char *profiles,
                 size_t profiles_length, const char *rates, size_t rates_length,
                 struct serving *ret_serving);
/* Returns the request rate per second of instance number `instance` at time_s. */
double serving_rate(const struct serving *s, size_t profile, uint64_t instance, double time_s);

enum serving_mode { SERVING_TOGETHER, SERVING_TIME, SERVING_SPACE };

/* State of a service at a rate and a share. `slower` multiplies the time of each batch, and held_ms
 * is added to that time. */
struct serving_state {
    uint32_t batch;
    double p99_ms, busy; /* fraction of the time */
    double late;         /* fraction of the requests */
};
struct serving_state serving_at(const struct serving_profile *p, double rate_per_s, double share,
                                double slower, double held_ms);
/* Returns the smallest share that keeps the p99 below `part` of the SLO; above 1: impossible. */
double serving_share(const struct serving_profile *p, double rate_per_s, double slower,
                     double part);
/* Fits the curve of the latency of one batch over the share to computed samples, as a real system
 * fits the curve to measured samples. */
void serving_curve(const struct serving_profile *p, uint32_t batch, double slower,
                   struct pwl_curve *ret_curve);

/* A device with one service and tasks. */
struct serving_device {
    enum serving_mode mode;
    struct serving_state state;
    double share;     /* of the service; 1 except in space mode */
    double available; /* fraction of the time, or in space mode of the SMs, for tasks */
};
/*
 * Computes the device's state in `mode`. `throttle`: fraction of the time in which tasks may run
 * (1: all); `crowd`: fraction of the SMs that the device's other services keep busy.
 */
struct serving_device serving_divide(const struct truth *t, const struct hardware_gpu *gpu,
                                     const struct serving_profile *p, double rate_per_s,
                                     enum serving_mode mode, const struct truth_resident *tasks,
                                     size_t task_count, double throttle, double crowd);
/* Modes that a policy's system offers besides SERVING_TOGETHER. */
struct serving_ways {
    bool time, space;
};
/* Chooses, among the modes that meet the SLO, the mode with the fastest tasks; if no mode meets the
 * SLO, the mode with the smallest p99. */
struct serving_device serving_choose(const struct truth *t, const struct hardware_gpu *gpu,
                                     const struct serving_profile *p, double rate_per_s,
                                     const struct serving_ways *ways,
                                     const struct truth_resident *tasks, size_t task_count,
                                     double throttle, double crowd);
/* Returns the slowdown of a batch by tasks on other SMs, which share DRAM and caches. */
double serving_beside(const struct truth *t, const struct hardware_gpu *gpu,
                      const struct truth_resident *tasks, size_t task_count);
/* Returns the slowdown of a task's iteration with the fraction `available` of the SMs. */
double serving_squeeze(const struct table_size *task, double available);
