/*
 * The contention model, fitted to measured pairs: how much longer an iteration of task a takes for
 * each second that task b is beside it. Both have demands on what a device shares: time with a
 * kernel on it, SMs, warps on the SMs, DRAM bandwidth, and the launch rate (by the time of an
 * iteration). What a waits for b is a product of powers of these,
 *
 *     delay(a, b) = exp(c + p·demands(b) + s·demands(a) + k·sm(a)·sm(b) + P[b's model] +
 *     S[a's model])
 *
 * with p the pressure of a demand, s the sensitivity to it, and what demands do not explain of a
 * model: P and S, drawn to 0 by a penalty, so that a model of which little is known is an ordinary
 * one. Several neighbours' delays add up. What the tables do not have (L2, PCIe) is in P and S.
 *
 * Fitted by least squares on the speed kept, 1 / (1 + delay): damped Gauss–Newton, no randomness.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sim/tables.h"

enum {
    PRESSURE_DEMANDS = 5,
    PRESSURE_PARAMETERS_MAX = 2 * PRESSURE_DEMANDS + 2 + 2 * TABLES_MODELS_MAX,
};

/* Plain data. */
struct pressure {
    double of_demand[PRESSURE_DEMANDS], to_demand[PRESSURE_DEMANDS];
    double constant, product;
    double of_model[TABLES_MODELS_MAX], to_model[TABLES_MODELS_MAX];
};

/* Which pairs the fit must not see: those for which it answers true. */
struct pressure_held_out {
    bool (*is)(const void *context, const struct table_pair *pair);
    const void *context;
};

/* held_out may be NULL. -ERR_INVALID when no pair is left, -ERR_NO_MEMORY. */
int pressure_fit(const struct tables *t, const struct pressure_held_out *held_out,
                 struct pressure *ret_pressure);

/* A task as the model sees it: at a batch size, on some device. */
struct pressure_task {
    size_t model;
    double demands[PRESSURE_DEMANDS];
};
struct pressure_task pressure_task_of(size_t model, const struct table_size *size);
/* By how much of its time alone an iteration of `task` grows for the neighbour. */
double pressure_delay(const struct pressure *p, const struct pressure_task *task,
                      const struct pressure_task *neighbour);
