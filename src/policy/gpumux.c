/*
 * gpumux: the default.
 *
 * A task goes where it adds most to the work that is completed a second: its own predicted speed
 * there, less what its neighbours lose; of the best few classes of devices to the one where it
 * delays the ends of all least. Where a service would miss its SLO it does not go at all. Whether
 * it goes there now or waits for a departure is IADeep's optimization 2 (place.h); what has waited
 * is placed in time. When several wait for little room, a round of matching gives each device the
 * task that it suits best (MuxFlow's, rounds.h), and running tasks that have a checkpoint may move.
 *
 * Departs from all three: the measure is speed gained, not PD, latency or utilisation; who has
 * little left to run goes before who has much, by as much as age does not outweigh.
 */
#include "policy/place.h"
#include "policy/policy_internal.h"
#include "policy/rounds.h"

/* Less than this part of a task's speed alone is not worth slowing others for. */
#define GAIN_MIN 0.05
/* A service beside another is the last choice: both are slowed when both are busy. */
#define SECOND_SERVICE_COST 0.5

/* A guess about a program that was never seen is no reason to refuse anybody. */
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

/* What is matched and would end sooner if it waited, waits: as if it were placed alone. */
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
    .summary = "where it adds most to the work done a second, within the SLOs of services",
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
