/*
 * mps: sharing by MPS alone, like Tencent's sharing, a baseline of IADeep.
 *
 * Devices are packed by memory, the fullest with room first. Workloads get equal shares; nothing is
 * tuned or predicted.
 */
#include "policy/policy_internal.h"

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    (void)waiting;
    candidate->score = policy_fullness(snapshot, &snapshot->fleet->classes[candidate->class_index]);
}

const struct policy policy_mps = {
    .name = "mps",
    .summary = "the fullest device whose memory suffices (sharing by MPS alone)",
    .judge = judge,
};
