/*
 * The true speeds of tasks on a simulated device. A policy gets only a forecast of these speeds.
 *
 *   alone          measured (tables.h). On another GPU model, the time with kernels is scaled by
 *                  SMs and bandwidth, in the proportion of the task's use: "extrapolated"
 *   one neighbour  measured, if the pair was measured at these batch sizes. Towards other sizes
 *                  the difference between measurement and contention model (pressure.h) fades
 *   several        the delays of the pairs add up
 *   noise          a factor for every pair of workloads, by seed, equal in every run
 *
 * Immutable once made, so threads may share a truth.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sim/hardware.h"
#include "sim/pressure.h"
#include "sim/tables.h"

enum { TRUTH_RESIDENTS_MAX = 32 };

struct truth;

/* Takes ownership of the tables, even on failure. noise: standard deviation of the logarithm of a
 * pair's slowdown. Returns -ERR_INVALID without pairs, or -ERR_NO_MEMORY. */
int truth_new(struct error *e, struct tables *tables, double noise, uint64_t seed,
              struct truth **ret_truth);
void truth_free(struct truth *t);
const struct tables *truth_tables(const struct truth *t);
double truth_noise(const struct truth *t);

/* Returns the measurements of a task alone, at this batch size on this GPU. */
struct table_size truth_alone(const struct truth *t, const struct hardware_gpu *gpu, size_t model,
                              double batch);

/* A task on a device. */
struct truth_resident {
    uint64_t id; /* identity for the noise; 0: no noise */
    size_t model;
    double batch;
    /* Input: fraction of the time in which the task may run (1: all), reduced by a gate or a
     * throttle. */
    double speed;
};
/* Computes the time of each task's iteration beside the others, relative to its time alone at the
 * same batch. */
void truth_slowdowns(const struct truth *t, const struct hardware_gpu *gpu,
                     const struct truth_resident *residents, size_t count, double *ret_slowdowns);

/*
 * Returns the PD (time per unit of progress, relative to alone at the user's batch) of a task at
 * `batch` whose iterations are slowed by the factor `slowdown`. Progress per sample falls with the
 * batch size, by the gradient noise scale.
 */
double truth_pd(const struct truth *t, const struct hardware_gpu *gpu, size_t model, double batch,
                double user_batch, double slowdown);
/* Returns the memory booked for a task at a batch size: its reservation plus a tenth, and a
 * context. */
uint64_t truth_booking_bytes(const struct truth *t, size_t model, double batch);

/* Error of the contention model on a table that the fit did not use. */
struct truth_validation {
    size_t values, unknown_rows;                   /* compared speeds; rows with unknown models */
    double error_mean, error_p90, error_max, bias; /* of the remaining speed */
    double fitted_error_mean; /* error of a fit that includes the table's pairs */
};
/*
 * Validates the contention model. For every pair of models in the table, fits the contention model
 * to the measured pairs without these two models, and predicts the pair by that fit alone. Returns
 * -ERR_SYNTAX, -ERR_INVALID if the table has no known model, or -ERR_NO_MEMORY.
 */
int truth_validate(struct error *e, const struct truth *t, const char *text, size_t length,
                   struct truth_validation *ret);
