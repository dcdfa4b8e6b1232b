/*
 * antman: AntMan's placement (OSDI'20), as IADeep's evaluation describes it.
 *
 * A device has one guaranteed task, the first to arrive, and opportunistic tasks that fit in its
 * memory. A task takes an idle device if there is one, and otherwise joins the fullest device with
 * room as an opportunistic task.
 *
 * Differences: the paper starts from the fullest node, this policy from the fullest device of any
 * node. Slowing the launches of opportunistic tasks when the guaranteed task suffers is left to the
 * device.
 */
#include "policy/policy_internal.h"

/* Above the fullness of any device. */
#define IDLE_SCORE 2.0

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    (void)waiting;
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    candidate->score = c->set.count == 0 ? IDLE_SCORE : policy_fullness(snapshot, c);
}

const struct policy policy_antman = {
    .name = "antman",
    .summary = "an idle device, or else the fullest device whose memory suffices (AntMan)",
    .judge = judge,
};
