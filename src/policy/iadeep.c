/*
 * iadeep: IADeep's online scheduler (SC'23).
 *
 * Chooses, over all devices of the cluster, the one where the sum of PD grows least. Optimization 1
 * skips devices with too little memory, and those where the predicted total speed (Σ 1/PD) would
 * fall below 1.1. Optimization 2 decides how many tasks share a device, and whether to wait
 * (place.h).
 *
 * Differences: the published code first picks a node by its free memory, and its forest returns a
 * constant. PD here divides by statistical efficiency, where the published code multiplies.
 * Services, which the paper does not have, count by the SMs that they use.
 *
 * Without the predictor, only the cold-start forecast is used. Without the optimizer, a task that
 * fits is placed at once. Without both, devices are packed by memory, as in the scheduler that
 * IADeep extends.
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
