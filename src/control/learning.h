/*
 * What a running cluster learns of its workloads, and the forecast that policies judge by.
 *
 * Nodes report what runs on each device, how busy that is, and how fast each workload is where it
 * says so itself. Of a program (programs.h) that is alone on a device its use of the device and its
 * speed are learnt; of programs that share one, by how much each is slower than alone. From that
 * comes the forecast (policy/learnt.h). Of a service that reports how long its requests take, the
 * p99 is learnt in the same way: alone, and by how much longer it is beside others. What is not
 * measured is not learnt: a program that reports no progress is known by its use of a device alone,
 * and of a set with one that never was alone nothing is learnt.
 *
 * A measurement counts if it began when the set had been together for LEARNING_SETTLE_MS, with all
 * of them at work. Of a set that stays together there are fewer and fewer, so that long runs do not
 * crowd out all else.
 *
 * Pure: no I/O, no clock, no thread. Training takes long, so that others do it (keeper.h).
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
    LEARNING_DEVICES_MAX = 1 << 16, /* that are watched; then all watching begins anew */
};

struct learning;

/* NULL when memory is out. */
struct learning *learning_new(void);
void learning_free(struct learning *l);
/* As long as l. */
const struct forecast *learning_forecast(const struct learning *l);

/*
 * The number of the program that this workload runs, which is the kind of the forecast that it is
 * of, once that is known. 0 when there is no number left (see learning_make_room) or no memory.
 */
uint32_t learning_program(struct learning *l, const char *user, const struct workload_spec *spec,
                          int64_t now_wall_ms);
/* Does the forecast tell it from others? */
bool learning_is_known(const struct learning *l, uint32_t program);
/* Forgets programs that no live workload is of, and that learning_program was not asked for
 * since then. */
void learning_make_room(struct learning *l, const bool used[PROGRAMS_MAX], int64_t since_wall_ms);

/* A workload on a device, as its node says. */
struct learning_member {
    uint64_t workload;
    int attempt;
    uint32_t program;
    bool is_at_work; /* it runs, and has memory on the device */
    bool is_gang;    /* it has other devices, too: its speed is not this device's alone */
    uint64_t memory_bytes;
    double samples_per_s;     /* -1: it does not say */
    int64_t speed_since_ms;   /* how long ago that measurement began; -1: not known */
    double p99_ms;            /* of its requests; -1: it does not say */
    uint64_t requests;        /* that this is of */
    int64_t latency_since_ms; /* as speed_since_ms */
};

/* What a node says of one device. */
struct learning_report {
    const char *uuid;
    const struct forecast_device *type;
    double sm_activity, dram_rate; /* 0 to 1; -1: it does not say */
    size_t count;                  /* of all that is placed there */
    const struct learning_member *members;
    int64_t now_ms;      /* boot clock */
    int64_t now_wall_ms; /* for what is kept over restarts */
};
void learning_report(struct learning *l, const struct learning_report *report);

/* How a task fares where it is, beside what was predicted of that before it was measured there. */
struct learning_outcome {
    uint64_t workload;
    int attempt;
    double pd, predicted_pd; /* > 0 */
};
/*
 * One that there is to tell: at first, when it has changed, and again and again while it is slower
 * than predicted. At most LEARNING_OUTCOMES_MAX wait to be taken; others are told later. False:
 * there is none.
 */
bool learning_take_outcome(struct learning *l, struct learning_outcome *ret_outcome);

/*
 * Lets what was learnt since the last time count in the forecast's answers, all at once: whatever
 * was answered before has to be computed anew. A p99 that was measured too long ago counts no more.
 * False: there was nothing.
 */
bool learning_publish(struct learning *l, int64_t now_wall_ms);

/* Is there enough that the present model does not know, for a new one to be trained? */
bool learning_wants_model(const struct learning *l);
/* Trained from what was measured when there were `total` measurements. Owned from here on. */
void learning_set_model(struct learning *l, struct predictor *model, uint64_t total);

/* What is to be kept over a restart, borrowed; the model may be NULL. */
const struct programs *learning_programs(const struct learning *l);
const struct observations *learning_measurements(const struct learning *l);
/* Counts up with every change of either that is worth keeping. */
uint64_t learning_programs_version(const struct learning *l);
uint64_t learning_measurements_version(const struct learning *l);
/* Starts from what was kept; each is owned from here on, NULL leaves what there is. Before the
 * first learning_program. -ERR_NO_MEMORY. */
int learning_restore(struct learning *l, struct programs *programs,
                     struct observations *measurements, struct predictor *model);
