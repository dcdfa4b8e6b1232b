/*
 * Learning from a running cluster: measurements of its workloads, and the forecast that policies
 * use.
 *
 * Nodes report the workloads of each device, the activity of the device, and the speed of each
 * workload that reports its progress. If a program (programs.h) runs alone on a device, this module
 * learns the program's use of the device and its speed. If programs share a device, this module
 * learns the slowdown of each program, relative to the program alone. The forecast
 * (policy/learnt.h) follows from these measurements. For a service that reports latencies, this
 * module learns the p99 alone and the increase of the p99 beside others. If a program reports no
 * progress, this module learns only the program's use of a device. This module learns nothing from
 * a set of programs until each program has run alone once.
 *
 * A measurement counts if it began at least LEARNING_SETTLE_MS after the set came together, with
 * all programs of the set running. The longer a set stays together, the smaller the part of its
 * measurements that this module keeps, so that long runs do not displace the measurements of other
 * sets.
 *
 * Pure: no I/O, no clock, no thread. Training takes long, so the keeper (keeper.h) trains.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/programs.h"
#include "learn/observations.h"
#include "learn/predictor.h"
#include "policy/forecast.h"

enum {
    LEARNING_SETTLE_MS = 500,
    LEARNING_MEMBERS_MAX = FORECAST_MEMBERS_MAX,
    LEARNING_OUTCOMES_MAX = 1024,
    LEARNING_DEVICES_MAX = 1 << 16, /* largest number of watched devices; a further device restarts
                                     * the watching of all */
};

struct learning;

/* Returns NULL when out of memory. */
struct learning *learning_new(void);
void learning_free(struct learning *l);
/* Returns the forecast, valid as long as l. */
const struct forecast *learning_forecast(const struct learning *l);

/*
 * Returns the number of the program that this workload runs, which is also its kind in the
 * forecast. Returns 0 if no number is free (see learning_make_room()) or memory is out.
 */
uint32_t learning_program(struct learning *l, const char *user, const struct workload_spec *spec,
                          int64_t now_wall_ms);
/* Returns whether the forecast distinguishes this program from others. */
bool learning_is_known(const struct learning *l, uint32_t program);
/* Forgets programs that no live workload runs, unless learning_program() returned their number
 * after since_wall_ms. */
void learning_make_room(struct learning *l, const bool used[PROGRAMS_MAX], int64_t since_wall_ms);

/* A workload on a device, as its node reports it. */
struct learning_member {
    uint64_t workload;
    int attempt;
    uint32_t program;
    bool is_at_work; /* the workload runs, and has memory on the device */
    bool is_gang;    /* the workload also uses other devices, on which its speed depends too */
    uint64_t memory_bytes;
    double samples_per_s;     /* progress; -1: not reported */
    int64_t speed_since_ms;   /* age of the start of the speed's measurement; -1: unknown */
    double p99_ms;            /* p99 latency of requests; -1: not reported */
    uint64_t requests;        /* number of requests in p99_ms */
    int64_t latency_since_ms; /* age of the start of the p99's measurement; -1: unknown */
};

/* A node's report of one device. */
struct learning_report {
    const char *uuid;
    const struct forecast_device *type;
    double sm_activity, dram_rate; /* 0 to 1; -1: not reported */
    size_t count;                  /* number of all workloads placed on the device */
    const struct learning_member *members;
    int64_t now_ms;      /* time on the boot clock */
    int64_t now_wall_ms; /* wall-clock time, for values that are saved across restarts */
};
void learning_report(struct learning *l, const struct learning_report *report);

/* A task's progress degradation (PD) on its device, and the PD predicted before the first
 * measurement. */
struct learning_outcome {
    uint64_t workload;
    int attempt;
    double pd, predicted_pd; /* greater than 0 */
};
/*
 * Takes one outcome; returns false if no outcome waits. A task has an outcome after its first
 * measurements, after each change, and repeatedly while it is slower than predicted. At most
 * LEARNING_OUTCOMES_MAX outcomes wait; further outcomes are postponed.
 */
bool learning_take_outcome(struct learning *l, struct learning_outcome *ret_outcome);

/*
 * Updates the forecast with everything learnt since the last call, and drops from the forecast
 * every p99 whose measurement is too old. Returns false if nothing changed. If the call returns
 * true, earlier results of the forecast are stale and must be computed again.
 */
bool learning_publish(struct learning *l, int64_t now_wall_ms);

/* Returns whether enough measurements are newer than the present model to train a new model. */
bool learning_wants_model(const struct learning *l);
/* Sets a model that was trained from `total` measurements, and takes ownership of it. */
void learning_set_model(struct learning *l, struct predictor *model, uint64_t total);

/* Results to save across restarts, borrowed; the model may be NULL. */
const struct programs *learning_programs(const struct learning *l);
const struct observations *learning_measurements(const struct learning *l);
/* Counters of changes that are worth saving. */
uint64_t learning_programs_version(const struct learning *l);
uint64_t learning_measurements_version(const struct learning *l);
/* Starts from saved results, and takes ownership of each; NULL keeps the present content. To be
 * called before learning_program(). Returns 0 or -ERR_NO_MEMORY. */
int learning_restore(struct learning *l, struct programs *programs,
                     struct observations *measurements, struct predictor *model);
