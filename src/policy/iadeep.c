/*
 * iadeep: IADeep's online scheduler (SC'23).
 *
 * Over all devices of the cluster, the one where the sum of PD grows least. Optimization 1 skips
 * devices where memory would not suffice, or where the predicted total speed (Σ 1/PD) would fall
 * under 1.1. Optimization 2 decides how many share a device, and whether to wait (place.h).
 *
 * Departs: the published code picks a node by its free memory first, and its forest answers with a
 * constant. PD divides by statistical efficiency, where the published code multiplies. Services
 * count by the SMs that they take, as the paper knows none.
 *
 * Without the predictor all that is known is the forecast of a cold start. Without the optimizer
 * what fits is placed at once. Without both nobody asks who slows whom: devices are packed by
 * memory, as the scheduler does that IADeep extends.
 */
#include "policy/policy_internal.h"

#define TOTAL_SPEED_MIN 1.1

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    (void)waiting;
    if (snapshot->options.without[POLICY_PART_PREDICTOR] &&
        snapshot->options.without[POLICY_PART_OPTIMIZER])
        candidate->score = policy_fullness(snapshot, c);
    else
        candidate->score = candidate->pd_sum_before - candidate->pd_sum_after;
    if (!snapshot->options.without[POLICY_PART_OPTIMIZER] && candidate->speed_before > 0 &&
        candidate->speed_after < TOTAL_SPEED_MIN)
        candidate->objection = POLICY_OBJECTS_SLOW;
}

const struct policy policy_iadeep = {
    .name = "iadeep",
    .summary = "where the slowdown of all tasks grows least, or later (IADeep)",
    .waits = true,
    .tunes = true,
    .judge = judge,
};
