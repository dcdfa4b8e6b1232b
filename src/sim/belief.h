/*
 * The forecast of a simulated run (policy/forecast.h).
 *
 * A learnt belief records the measured PD (truth_pd()) of every set of kinds that ran together, and
 * returns the mean. For an unmeasured pair, the predictor of learn/ predicts the slowdown
 * (lessons.h). For an unmeasured larger set, the belief adds up the slowdowns by the single
 * neighbours. The predictor receives the features of each kind alone on a device, at the batch size
 * that is best for the kind alone: a task that ran twice as fast with four times the batch is also
 * busier than at its user's batch. A learnt belief derives from measurements only, never from the
 * truth or its parameters.
 *
 * For a service, the profile gives the latency as a function of the share, the request rate, and
 * the part of the device that remains for tasks. Forecasts assume 1.5 times the mean request rate.
 *
 * A true belief (`oracle`) returns the actual PD of the set, at its best batch sizes.
 */
#pragma once
#include <stdint.h>

#include "policy/forecast.h"
#include "sim/hardware.h"
#include "sim/serving.h"
#include "sim/truth.h"

enum { BELIEF_KINDS_MAX = 4096 };

/* The program of a workload; kind numbers are 1 + index. */
struct belief_kind {
    uint32_t model; /* of a task */
    double batch;   /* the user's batch size */
    bool is_tuned;  /* the simulated system searches for the batch size */
    bool is_service;
    uint32_t service; /* index of the service's profile */
};

struct belief;

/* Configuration of a belief; all pointers are borrowed. */
struct belief_config {
    const struct truth *truth;
    const struct hardware *hardware;
    const struct serving *serving; /* NULL: no services */
    struct serving_ways ways;
    bool is_true;
    uint64_t seed; /* of the lessons */
};
/* Returns -ERR_NO_MEMORY. */
int belief_new(const struct belief_config *config, struct belief **ret_belief);
void belief_free(struct belief *b);
/* Returns the forecast, valid as long as the belief. */
const struct forecast *belief_forecast(const struct belief *b);

/* Returns the number of this kind, or -ERR_TOO_LARGE or -ERR_NO_MEMORY. */
int belief_kind_of(struct belief *b, const struct belief_kind *kind, uint32_t *ret_number);
const struct belief_kind *belief_kind(const struct belief *b, uint32_t number);

/* Records the measured PD of a set of tasks, and their last batch sizes, in the order of the kinds.
 * group: index into hardware.groups. Returns -ERR_NO_MEMORY. */
int belief_observe(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                   const double *batches, const double *pds);
/* Computes the best batch sizes of the set from the truth, and the PD at these sizes. */
void belief_best(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                 double *ret_batches, double *ret_pds);
