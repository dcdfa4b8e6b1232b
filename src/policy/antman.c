/*
 * antman: AntMan's placement (OSDI'20), as IADeep's evaluation describes it.
 *
 * A device has one guaranteed task, the first that came to it, and opportunistic ones that fit in
 * its memory. A task takes an idle device if there is one, and is opportunistic on the fullest one
 * that holds it if there is none.
 *
 * Departs: the paper starts from the fullest node, here it is the fullest device of any node;
 * that the launches of opportunistic tasks are slowed when the guaranteed one suffers is the
 * device's matter.
 */
#include "policy/policy_internal.h"

/* Above any fullness. */
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
    .summary = "an idle device, or else the fullest whose memory suffices (AntMan)",
    .judge = judge,
};
