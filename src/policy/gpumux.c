/*
 * gpumux: the default.
 *
 * A task goes where it adds most to the work completed per second: its own predicted speed minus
 * the loss of its neighbours. Of the best few classes of devices the task takes the one where it
 * delays all ends least. A placement that makes a service miss its SLO is rejected. IADeep's
 * optimization 2 decides between placing now and waiting for a departure (place.h); every task is
 * placed in the end. If several tasks wait for little room, a round of matching gives each device
 * the most suitable task (MuxFlow's, rounds.h), and running tasks with a checkpoint may move.
 *
 * Differences from all three: the measure is added speed, not PD, latency or utilisation, and tasks
 * with little remaining time precede others unless their age outweighs that.
 */
#include "policy/place.h"
#include "policy/policy_internal.h"
#include "policy/rounds.h"

/* Least gain, as a fraction of a task's speed alone, that justifies slowing others. */
#define GAIN_MIN 0.05
/* Cost of placing a service beside another one, so that it is the last choice: both are slowed when
 * both are busy. */
#define SECOND_SERVICE_COST 0.5

/* Returns whether all kinds are known, because a guess about an unknown program refuses nothing. */
static bool are_known(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                      const struct fleet_class *c)
{
    const struct forecast *f = snapshot->fleet->forecast;
    bool known = f->profile(f->context, c->set.device, waiting->known.kind) != NULL;
    for (size_t i = 0; known && i < c->set.count; i++)
        known = f->profile(f->context, c->set.device, c->set.kinds[i]) != NULL;
    return known;
}

void policy_judge_gain(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       struct policy_candidate *candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[candidate->class_index];
    candidate->score = candidate->speed_after - candidate->speed_before;
    if (policy_misses_slo(candidate))
        candidate->objection = POLICY_OBJECTS_SLO;
    else if (waiting->needs->kind == WORKLOAD_SERVICE)
        candidate->score -= c->has_service ? SECOND_SERVICE_COST : 0;
    else if (candidate->score < GAIN_MIN && are_known(snapshot, waiting, c))
        candidate->objection = POLICY_OBJECTS_SLOW;
}

/* Drops the matched tasks that would end sooner by waiting, as for a single placement. */
int policy_round_gain(const struct policy_snapshot *snapshot, struct policy_round *ret_round)
{
    struct policy_round round = *ret_round;
    int result = policy_match_round(&policy_gpumux, snapshot, true, &round);
    size_t kept = 0;
    if (result < 0)
        return result;
    for (size_t i = 0; i < round.decision_count; i++) {
        const struct policy_decision *d = &round.decisions[i];
        if (!policy_should_wait(&policy_gpumux, snapshot, &snapshot->waiting[d->waiting],
                                d->devices[0]))
            round.decisions[kept++] = *d;
    }
    round.decision_count = kept;
    *ret_round = round;
    return 0;
}

const struct policy policy_gpumux = {
    .name = "gpumux",
    .summary = "where the total work per second grows most, within the SLOs of services",
    .shortest_first = true,
    .waits = true,
    .by_end_times = true,
    .round_ms = POLICY_ROUND_MS,
    .tunes = true,
    .gates = true,
    .shares = true,
    .judge = policy_judge_gain,
    .round = policy_round_gain,
};
