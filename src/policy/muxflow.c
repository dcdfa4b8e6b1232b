/*
 * muxflow: MuxFlow's scheduler (arXiv 2303.13803).
 *
 * A service shares no device with another service, and has at most one task beside it. Every
 * minute, a round of maximum-weight matching by predicted speed assigns tasks to devices
 * (rounds.h); running tasks with a checkpoint may be matched again.
 *
 * Differences: all devices are matched at once, where the paper divides the cluster for speed. A
 * free device is taken without waiting for the round. A device without a service takes two tasks,
 * because in the paper every device has a service. Without matching, a task goes at once where its
 * predicted speed is highest.
 */
#include "policy/policy_internal.h"
#include "policy/rounds.h"

enum { TASKS_BESIDE_SERVICE = 1, TASKS_ALONE = 2 };

/* Judges where a task may go, regardless of rounds. */
static void judge_pair(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    size_t tasks = c->set.count - (c->has_service ? 1 : 0);
    candidate->score = candidate->speed_after - candidate->speed_before;
    if (policy_misses_slo(candidate))
        candidate->objection = POLICY_OBJECTS_SLO;
    else if (waiting->needs->kind == WORKLOAD_SERVICE && c->has_service)
        candidate->objection = POLICY_OBJECTS_SERVICES;
    else if (waiting->needs->kind == WORKLOAD_TASK &&
             tasks >= (c->has_service ? TASKS_BESIDE_SERVICE : TASKS_ALONE))
        candidate->objection = POLICY_OBJECTS_TASKS;
    else if (waiting->needs->kind == WORKLOAD_TASK && candidate->score <= 0)
        candidate->objection = POLICY_OBJECTS_SLOW;
}

static void judge(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                  struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    judge_pair(snapshot, waiting, candidate);
    if (candidate->objection == POLICY_OBJECTS_NONE && waiting->needs->kind == WORKLOAD_TASK &&
        waiting->needs->devices == 1 && c->set.count > 0 &&
        !snapshot->options.without[POLICY_PART_MATCHING])
        candidate->objection = POLICY_OBJECTS_ROUND;
}

static const struct policy pairs_policy = {.name = "muxflow", .judge = judge_pair};

static int match_all(const struct policy_snapshot *snapshot, struct policy_round *ret_round)
{
    return policy_match_round(&pairs_policy, snapshot, true, ret_round);
}

const struct policy policy_muxflow = {
    .name = "muxflow",
    .summary = "one task beside a service, matched in rounds by predicted speed (MuxFlow)",
    .round_ms = POLICY_ROUND_MS,
    .gates = true,
    .judge = judge,
    .round = match_all,
};
