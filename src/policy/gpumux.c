/*
 * gpumux: the default.
 *
 * A task goes where it adds most to the work that is completed a second: its own predicted speed there,
 * less what its neighbours lose. Where a service would miss its SLO it does not go at all. Whether it
 * goes there now or waits for a departure is IADeep's optimization 2 (place.h); what has waited is
 * placed in time. When several wait for little room, a round of matching gives each device the task
 * that it suits best (MuxFlow's, rounds.h), and running tasks that have a checkpoint may move.
 *
 * Departs from all three: the measure is speed gained, not PD, latency or utilisation; who has little
 * left to run goes before who has much, by as much as age does not outweigh.
 */
#include "policy/policy_internal.h"

/* Less than this part of a task's speed alone is not worth slowing others for. */
#define GAIN_MIN 0.05
/* A service beside another is the last choice: both are slowed when both are busy. */
#define SECOND_SERVICE_COST 0.5

void policy_judge_gain(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    candidate->score = candidate->speed_after - candidate->speed_before;
    if (candidate->p99_ms > candidate->slo_ms)
        candidate->objection = POLICY_OBJECTS_SLO;
    else if (waiting->needs->kind == WORKLOAD_SERVICE)
        candidate->score -= c->has_service ? SECOND_SERVICE_COST : 0;
    else if (candidate->score < GAIN_MIN)
        candidate->objection = POLICY_OBJECTS_SLOW;
}

const struct policy policy_gpumux = {
    .name = "gpumux",
    .summary = "where it adds most to the work done a second, within the SLOs of services",
    .shortest_first = true,
    .waits = true,
    .judge = policy_judge_gain,
};
