/*
 * What a policy is told to expect (policy/forecast.h) in a simulated run.
 *
 * Learnt: a set of kinds that ran together is remembered with the PD that each had, and answers
 * with the mean. Of a larger set that was never seen, the slow-downs by one neighbour each are
 * added up; of a pair that was never seen, the predictor of learn/ says how much they slow each
 * other (lessons.h). It is asked with what each is like alone at the batch size that suits it
 * there: a task that was measured to be twice as fast with four times the batch is also busier than
 * its user's batch made it. Not the truth, and none of its parameters: what is believed comes from
 * what happened.
 *
 * Of a service its latency over the share, its rate and what is left beside it are known, as a
 * profile has them; plans are made for half as many requests again as come on average.
 *
 * True (`oracle`): the PD that the set really has, at the batch sizes that are best for it.
 */
#pragma once
#include <stdint.h>

#include "policy/forecast.h"
#include "sim/hardware.h"
#include "sim/serving.h"
#include "sim/truth.h"

enum { BELIEF_KINDS_MAX = 4096 };

/* What a workload runs: kind number 1 + index. */
struct belief_kind {
    uint32_t model; /* of a task */
    double batch;   /* its user's */
    bool is_tuned;  /* a search may choose another */
    bool is_service;
    uint32_t service; /* index of its profile */
};

struct belief;

/* What everything is believed about; all of it is borrowed. */
struct belief_config {
    const struct truth *truth;
    const struct hardware *hardware;
    const struct serving *serving; /* or NULL */
    struct serving_ways ways;
    bool is_true;
    uint64_t seed; /* of what is learnt */
};
/* -ERR_NO_MEMORY. */
int belief_new(const struct belief_config *config, struct belief **ret_belief);
void belief_free(struct belief *b);
/* Borrowed, as long as the belief. */
const struct forecast *belief_forecast(const struct belief *b);

/* The number of this kind; -ERR_TOO_LARGE, -ERR_NO_MEMORY. */
int belief_kind_of(struct belief *b, const struct belief_kind *kind, uint32_t *ret_number);
const struct belief_kind *belief_kind(const struct belief *b, uint32_t number);

/* A set of tasks (group: index into hardware.groups) ran with these PD, at last with these batch
 * sizes, in the order of its kinds. -ERR_NO_MEMORY. */
int belief_observe(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                   const double *batches, const double *pds);
/* The best batch sizes of the set by the truth, and their PD. */
void belief_best(struct belief *b, size_t group, const uint32_t *kinds, size_t count,
                 double *ret_batches, double *ret_pds);
