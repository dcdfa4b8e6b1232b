/*
 * The contention model, fitted to measured pairs: the delay of an iteration of task a for each
 * second that task b runs on the same device. Both tasks have demands on the shared resources of a
 * device: time with a kernel running, SMs, warps on the SMs, DRAM bandwidth, and launch rate (from
 * the time of an iteration). The delay is a product of powers of the demands,
 *
 *     delay(a, b) = exp(c + p·demands(b) + s·demands(a) + k·sm(a)·sm(b) + P[b's model] +
 *     S[a's model])
 *
 * where p is the pressure of a demand and s the sensitivity to it. P and S are residuals of each
 * model, shrunk to 0 by a penalty, so that a model with few measurements counts as average. Delays
 * by several neighbours add up. Resources missing from the tables (L2, PCIe) are part of P and S.
 *
 * The fit is least squares on the remaining speed, 1 / (1 + delay), by damped Gauss–Newton without
 * randomness.
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

/* Selects the pairs that the fit must not use. */
struct pressure_held_out {
    bool (*is)(const void *context, const struct table_pair *pair);
    const void *context;
};

/* held_out may be NULL. Returns -ERR_INVALID if no pair is left, or -ERR_NO_MEMORY. */
int pressure_fit(const struct tables *t, const struct pressure_held_out *held_out,
                 struct pressure *ret_pressure);

/* A task in the contention model, at a batch size on a device. */
struct pressure_task {
    size_t model;
    double demands[PRESSURE_DEMANDS];
};
struct pressure_task pressure_task_of(size_t model, const struct table_size *size);
/* Returns the delay of an iteration of `task` by the neighbour, relative to the iteration's time
 * alone. */
double pressure_delay(const struct pressure *p, const struct pressure_task *task,
                      const struct pressure_task *neighbour);
