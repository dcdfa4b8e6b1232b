/*
 * How fast tasks really are on a simulated device. Not what a policy believes: that is a forecast.
 *
 *   alone          measured (tables.h); on another model of GPU the time with kernels is scaled by
 *                  SMs and bandwidth in the proportion in which the task uses them: "extrapolated"
 *   beside one     measured where that pair was measured at those batch sizes; towards other
 *                  sizes the difference between what was measured and the contention model
 *                  (pressure.h) fades
 *   beside more    the pairs' delays add up
 *   noise          a factor for every two workloads, by seed, the same in every run
 *
 * Immutable once made: threads may share it.
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

/* Takes over the tables, also on failure. noise: standard deviation of the logarithm of a pair's
 * slow-down. -ERR_INVALID without pairs, -ERR_NO_MEMORY. */
int truth_new(struct error *e, struct tables *tables, double noise, uint64_t seed,
              struct truth **ret_truth);
void truth_free(struct truth *t);
const struct tables *truth_tables(const struct truth *t);
double truth_noise(const struct truth *t);

/* A task alone at this batch size on that GPU. */
struct table_size truth_alone(const struct truth *t, const struct hardware_gpu *gpu, size_t model,
                              double batch);

/* A task on a device. */
struct truth_resident {
    uint64_t id; /* for the noise; 0: without */
    size_t model;
    double batch;
    double speed; /* in: part of the time in which it may run (1: all); a gate or a throttle
                  lessens it */
};
/* Time of an iteration of each beside the others, relative to alone at the same batch. */
void truth_slowdowns(const struct truth *t, const struct hardware_gpu *gpu,
                     const struct truth_resident *residents, size_t count, double *ret_slowdowns);

/*
 * PD, time per unit of progress relative to alone at the user's batch: of a task that runs at
 * `batch` and whose iterations take `slowdown` times as long as alone. Progress per sample lessens
 * as the batch grows, by the gradients' noise scale.
 */
double truth_pd(const struct truth *t, const struct hardware_gpu *gpu, size_t model, double batch,
                double user_batch, double slowdown);
/* The memory that is booked for a task at a batch size: what it reserves, a tenth more,
 * and a context. */
uint64_t truth_booking_bytes(const struct truth *t, size_t model, double batch);

/* How far the contention model is from a table that it was not fitted to. */
struct truth_validation {
    size_t values, unknown_rows; /* speeds compared; rows of models that are not known */
    double error_mean, error_p90, error_max, bias; /* of the speed kept */
    double fitted_error_mean; /* the same with a fit that has seen the table's pairs */
};
/*
 * Every pair of models of the table is predicted by a fit to the measured pairs without those of
 * these two models: by the contention model alone, without what was measured. -ERR_SYNTAX,
 * -ERR_INVALID when the table has no known model, -ERR_NO_MEMORY.
 */
int truth_validate(struct error *e, const struct truth *t, const char *text, size_t length,
                   struct truth_validation *ret);
