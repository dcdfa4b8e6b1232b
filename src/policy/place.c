#include "policy/place.h"

#include <math.h>
#include <stdlib.h>

const char *policy_objection_text(enum policy_objection objection)
{
#define X(name, text) text,
    static const char *const texts[] = {POLICY_OBJECTIONS(X)};
#undef X
    return texts[objection];
}

/* ---- one class ---- */

bool policy_misses_slo(const struct policy_candidate *candidate)
{
    return candidate->p99_ms > candidate->slo_ms && !candidate->is_p99_guess;
}

/* Finds the service of the set that is closest to missing its SLO, or misses it most; measured
 * figures precede guesses. */
static void nearest_slo(const struct forecast *f, const struct forecast_set *set,
                        const struct forecast_answer *answer, struct policy_candidate *candidate)
{
    double worst = -1;
    for (size_t i = 0; i < set->count; i++) {
        const struct forecast_profile *p = f->profile(f->context, set->device, set->kinds[i]);
        if (!p || p->kind != WORKLOAD_SERVICE || !(p->slo_ms > 0))
            continue;
        struct policy_candidate this = {.p99_ms = answer->p99_ms[i],
                                        .slo_ms = p->slo_ms,
                                        .is_p99_guess = answer->is_p99_guess[i]};
        bool misses = policy_misses_slo(&this), others = policy_misses_slo(candidate);
        double part = this.p99_ms / this.slo_ms;
        if (misses < others || (misses == others && part <= worst))
            continue;
        worst = part;
        candidate->p99_ms = this.p99_ms;
        candidate->slo_ms = this.slo_ms;
        candidate->is_p99_guess = this.is_p99_guess;
        candidate->service = set->kinds[i];
    }
}

static bool is_task(const struct forecast *f, const struct forecast_set *set, size_t i)
{
    const struct forecast_profile *p = f->profile(f->context, set->device, set->kinds[i]);
    return !p || p->kind == WORKLOAD_TASK;
}

static void sum_up(const struct forecast *f, const struct forecast_set *set,
                   const struct forecast_answer *answer, double *ret_speed, double *ret_pd)
{
    *ret_speed = *ret_pd = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (!is_task(f, set, i))
            continue;
        *ret_speed += 1 / answer->pd[i];
        *ret_pd += answer->pd[i];
    }
}

static enum policy_misfit class_fit(const struct policy *policy,
                                    const struct policy_snapshot *snapshot,
                                    const struct policy_waiting *waiting,
                                    const struct fleet_class *c)
{
    int max_neighbours = policy->one_a_device ? 1 : snapshot->max_neighbours;
    if (c->set.count >= FORECAST_MEMBERS_MAX)
        return POLICY_NEIGHBOURS;
    return policy_device_fit(snapshot, &snapshot->devices[c->first], waiting, max_neighbours);
}

void policy_consider(const struct policy *policy, const struct policy_snapshot *snapshot,
                     const struct policy_waiting *waiting, size_t class_index,
                     struct policy_candidate *ret_candidate)
{
    const struct fleet_class *c = &snapshot->fleet->classes[class_index];
    const struct forecast *f = snapshot->fleet->forecast;
    struct policy_candidate candidate = {.class_index = class_index};
    candidate.misfit = class_fit(policy, snapshot, waiting, c);
    if (candidate.misfit == POLICY_FITS) {
        struct forecast_set with = c->set;
        struct forecast_answer answer;
        size_t own = forecast_set_add(&with, waiting->known.kind);
        f->together(f->context, &with, &answer);
        candidate.pd = answer.pd[own];
        sum_up(f, &c->set, &c->answer, &candidate.speed_before, &candidate.pd_sum_before);
        sum_up(f, &with, &answer, &candidate.speed_after, &candidate.pd_sum_after);
        if (c->has_service || waiting->needs->kind == WORKLOAD_SERVICE)
            nearest_slo(f, &with, &answer, &candidate);
        if (waiting->needs->devices > 1 && c->has_gang)
            candidate.objection = POLICY_OBJECTS_GANG;
        else
            policy->judge(snapshot, waiting, &candidate);
        /* No device will ever be better than an empty one. */
        if (c->set.count == 0)
            candidate.objection = POLICY_OBJECTS_NONE;
    }
    *ret_candidate = candidate;
}

static bool is_wanted(const struct policy_candidate *c)
{
    return c->misfit == POLICY_FITS && c->objection == POLICY_OBJECTS_NONE;
}

/* Orders by quality; breaks ties by the first device, so that the result does not depend on the
 * order of classes. */
static int compare_candidates(const struct policy_snapshot *snapshot,
                              const struct policy_candidate *a, const struct policy_candidate *b)
{
    int rank_a = is_wanted(a) ? 0 : a->misfit == POLICY_FITS ? 1 : 2;
    int rank_b = is_wanted(b) ? 0 : b->misfit == POLICY_FITS ? 1 : 2;
    if (rank_a != rank_b)
        return rank_a - rank_b;
    if (rank_a == 0 && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    size_t first_a = snapshot->fleet->classes[a->class_index].first;
    size_t first_b = snapshot->fleet->classes[b->class_index].first;
    return first_a < first_b ? -1 : first_a > first_b;
}

static size_t insert_candidate(const struct policy_snapshot *snapshot,
                               const struct policy_candidate *candidate,
                               struct policy_candidate *best, size_t count, size_t room)
{
    size_t at = count < room ? count : room - 1;
    if (count == room && compare_candidates(snapshot, candidate, &best[at]) >= 0)
        return count;
    for (; at > 0 && compare_candidates(snapshot, candidate, &best[at - 1]) < 0; at--)
        best[at] = best[at - 1];
    best[at] = *candidate;
    return count < room ? count + 1 : room;
}

size_t policy_candidates(const struct policy *policy, const struct policy_snapshot *snapshot,
                         const struct policy_waiting *waiting, struct policy_candidate *ret,
                         size_t room)
{
    size_t count = 0;
    for (size_t i = 0; room > 0 && i < snapshot->fleet->class_count; i++) {
        struct policy_candidate candidate;
        if (snapshot->fleet->classes[i].device_count == 0)
            continue;
        policy_consider(policy, snapshot, waiting, i, &candidate);
        count = insert_candidate(snapshot, &candidate, ret, count, room);
    }
    return count;
}

/* ---- now or later ---- */

/* Returns the growth of the set's end times through one more workload of this kind, which takes
 * own_ms. */
static double added_ms(const struct forecast *f, const struct forecast_set *set,
                       const double *remaining_ms, uint32_t kind, double own_ms)
{
    struct forecast_set with = *set;
    double with_ms[FORECAST_MEMBERS_MAX];
    size_t own = forecast_set_add(&with, kind);
    for (size_t i = 0; i < with.count; i++)
        with_ms[i] = i < own ? remaining_ms[i] : i == own ? own_ms : remaining_ms[i - 1];
    return forecast_finish_sum(f, &with, with_ms, NULL) -
           forecast_finish_sum(f, set, remaining_ms, NULL) - own_ms;
}

static const struct fleet_class *remaining_of(const struct policy_snapshot *snapshot, size_t device,
                                              double *ret_remaining_ms)
{
    const struct fleet *fleet = snapshot->fleet;
    const struct fleet_device *d = &fleet->devices[device];
    for (size_t i = 0; i < d->member_count; i++)
        ret_remaining_ms[i] = fleet_remaining_ms(fleet, device, i, snapshot->now_ms);
    return &fleet->classes[d->class_index];
}

double policy_added_ms(const struct policy_snapshot *snapshot, const struct policy_waiting *waiting,
                       size_t device)
{
    double remaining_ms[FORECAST_MEMBERS_MAX];
    const struct fleet_class *c = remaining_of(snapshot, device, remaining_ms);
    return added_ms(snapshot->fleet->forecast, &c->set, remaining_ms, waiting->known.kind,
                    policy_remaining_ms(waiting));
}

/* Returns ΔCT of waiting for the next departure of this device; INFINITY without room even then. */
static double waited_ms(const struct policy *policy, const struct policy_snapshot *snapshot,
                        const struct policy_waiting *waiting, size_t device)
{
    const struct fleet_device *d = &snapshot->fleet->devices[device];
    double remaining_ms[FORECAST_MEMBERS_MAX], first_ms = INFINITY;
    const struct fleet_class *c = remaining_of(snapshot, device, remaining_ms);
    struct policy_device then = snapshot->devices[device];
    struct forecast_set rest = c->set;
    size_t first = 0;
    for (size_t i = 0; i < d->member_count; i++)
        if (remaining_ms[i] * c->answer.pd[i] < first_ms) {
            first_ms = remaining_ms[i] * c->answer.pd[i];
            first = i;
        }
    if (isinf(first_ms))
        return INFINITY;
    policy_device_release(&then, d->members[first].needs);
    if (policy_device_fit(snapshot, &then, waiting,
                          policy->one_a_device ? 1 : snapshot->max_neighbours) != POLICY_FITS)
        return INFINITY;
    for (size_t i = 0; i < d->member_count; i++)
        remaining_ms[i] = fmax(0, remaining_ms[i] - first_ms / c->answer.pd[i]);
    forecast_set_remove(&rest, first);
    for (size_t i = first; i < rest.count; i++)
        remaining_ms[i] = remaining_ms[i + 1];
    return first_ms + added_ms(snapshot->fleet->forecast, &rest, remaining_ms, waiting->known.kind,
                               policy_remaining_ms(waiting));
}

static double least_waited_ms(const struct policy *policy, const struct policy_snapshot *snapshot,
                              const struct policy_waiting *waiting)
{
    const struct fleet *fleet = snapshot->fleet;
    double least = INFINITY;
    for (size_t i = waiting->ahead, seen = 0;
         i < fleet->departure_count && seen < PLACE_DEPARTURES_MAX; i++, seen++) {
        /* Departures are sorted, so the remaining ones cannot be better. */
        if (fleet->departures[i].at_ms - (double)snapshot->now_ms >= least)
            break;
        least = fmin(least, waited_ms(policy, snapshot, waiting, fleet->departures[i].device));
    }
    return least;
}

static bool compares(const struct policy *policy, const struct policy_snapshot *snapshot,
                     const struct policy_waiting *waiting, const struct fleet_class *c)
{
    const struct forecast *f = snapshot->fleet->forecast;
    return policy->waits && !snapshot->options.without[POLICY_PART_OPTIMIZER] &&
           waiting->needs->kind == WORKLOAD_TASK && c->set.count > 0 &&
           f->profile(f->context, c->set.device, waiting->known.kind);
}

bool policy_should_wait(const struct policy *policy, const struct policy_snapshot *snapshot,
                        const struct policy_waiting *waiting, size_t device)
{
    const struct fleet *fleet = snapshot->fleet;
    if (!compares(policy, snapshot, waiting, &fleet->classes[fleet->devices[device].class_index]))
        return false;
    return policy_added_ms(snapshot, waiting, device) >
           least_waited_ms(policy, snapshot, waiting) + (double)waiting->waited_ms;
}

/* Chooses the device of a class with the least ΔCT; its devices differ in remaining times. */
static size_t choose_device(const struct policy_snapshot *snapshot,
                            const struct policy_waiting *waiting, size_t class_index,
                            double *ret_added_ms)
{
    const struct fleet *fleet = snapshot->fleet;
    size_t device = fleet->classes[class_index].first, best = device;
    *ret_added_ms = INFINITY;
    for (size_t i = 0; device != FLEET_NONE && i < PLACE_DEVICES_MAX; i++) {
        double added = policy_added_ms(snapshot, waiting, device);
        if (added < *ret_added_ms) {
            *ret_added_ms = added;
            best = device;
        }
        device = fleet->devices[device].next;
    }
    return best;
}

/* Chooses the class with the least such ΔCT, of those that the policy rates best: the largest gain
 * in speed does not always end soonest, and the decision to wait compares ends. */
static size_t choose_class(const struct policy_snapshot *snapshot,
                           const struct policy_waiting *waiting,
                           const struct policy_candidate *best, size_t count, size_t *ret_chosen,
                           double *ret_added_ms)
{
    size_t device = FLEET_NONE;
    *ret_added_ms = INFINITY;
    for (size_t i = 0; i < count && is_wanted(&best[i]); i++) {
        double added_ms;
        size_t there = choose_device(snapshot, waiting, best[i].class_index, &added_ms);
        if (device != FLEET_NONE && added_ms >= *ret_added_ms)
            continue;
        device = there;
        *ret_chosen = i;
        *ret_added_ms = added_ms;
    }
    return device;
}

static void place_one(const struct policy *policy, const struct policy_snapshot *snapshot,
                      const struct policy_waiting *waiting, struct place_outcome *o)
{
    struct policy_candidate best[PLACE_CLASSES_MAX];
    size_t room = policy->by_end_times ? PLACE_CLASSES_MAX : 1, chosen = 0;
    size_t count = policy_candidates(policy, snapshot, waiting, best, room);
    if (count == 0 || !is_wanted(&best[0]))
        return;
    size_t device = snapshot->fleet->classes[best[0].class_index].first;
    if (compares(policy, snapshot, waiting, &snapshot->fleet->classes[best[0].class_index]))
        device = choose_class(snapshot, waiting, best, count, &chosen, &o->now_ms);
    o->class_index = best[chosen].class_index;
    o->score = best[chosen].score;
    bool compared = compares(policy, snapshot, waiting, &snapshot->fleet->classes[o->class_index]);
    if (compared)
        o->wait_ms = least_waited_ms(policy, snapshot, waiting);
    else
        o->now_ms = 0;
    if (compared && o->now_ms > o->wait_ms + (double)waiting->waited_ms) {
        double more_ms = o->now_ms - o->wait_ms - (double)waiting->waited_ms;
        o->verdict = POLICY_WAITS;
        o->retry_ms = more_ms < INT32_MAX ? (int64_t)ceil(more_ms) : INT32_MAX;
        return;
    }
    o->verdict = POLICY_PLACES;
    o->decision.node = snapshot->devices[device].node;
    o->decision.device_count = 1;
    o->decision.devices[0] = device;
}

/* ---- several devices, and none ---- */

/* Finds the best devices of one node, if there are enough, and the score of the worst of them. */
static bool best_of_node(const struct policy_snapshot *snapshot, const struct policy_node *node,
                         size_t wanted, size_t *ret_devices, double *ret_score)
{
    const struct fleet *fleet = snapshot->fleet;
    size_t count = 0;
    for (size_t d = node->first_device; d < node->first_device + node->device_count; d++) {
        double score = fleet->class_numbers[fleet->devices[d].class_index];
        size_t at = count < wanted ? count : wanted - 1;
        if (score == -INFINITY)
            continue;
        if (count == wanted &&
            score <= fleet->class_numbers[fleet->devices[ret_devices[at]].class_index])
            continue;
        for (; at > 0 &&
               score > fleet->class_numbers[fleet->devices[ret_devices[at - 1]].class_index];
             at--)
            ret_devices[at] = ret_devices[at - 1];
        ret_devices[at] = d;
        count += count < wanted;
    }
    if (count < wanted)
        return false;
    *ret_score = fleet->class_numbers[fleet->devices[ret_devices[wanted - 1]].class_index];
    return true;
}

static void place_gang(const struct policy *policy, const struct policy_snapshot *snapshot,
                       const struct policy_waiting *waiting, struct place_outcome *o)
{
    const struct fleet *fleet = snapshot->fleet;
    size_t wanted = (size_t)waiting->needs->devices;
    double best = -INFINITY;
    for (size_t i = 0; i < fleet->class_count; i++) {
        struct policy_candidate candidate = {.misfit = POLICY_MISFIT_END};
        if (fleet->classes[i].device_count > 0)
            policy_consider(policy, snapshot, waiting, i, &candidate);
        fleet->class_numbers[i] = is_wanted(&candidate) ? candidate.score : -INFINITY;
    }
    for (size_t n = 0; n < snapshot->node_count; n++) {
        size_t devices[WORKLOAD_DEVICES_MAX];
        double score;
        if (!best_of_node(snapshot, &snapshot->nodes[n], wanted, devices, &score) || score <= best)
            continue;
        best = o->score = score;
        o->verdict = POLICY_PLACES;
        o->class_index = fleet->devices[devices[0]].class_index;
        o->decision.node = n;
        o->decision.device_count = wanted;
        for (size_t i = 0; i < wanted; i++)
            o->decision.devices[i] = devices[i];
    }
}

static void place_without_device(const struct policy_snapshot *snapshot,
                                 const struct policy_waiting *waiting, struct place_outcome *o)
{
    for (size_t n = 0; n < snapshot->node_count; n++)
        if (policy_node_fit(&snapshot->nodes[n], waiting) == POLICY_FITS) {
            o->verdict = POLICY_PLACES;
            o->decision.node = n;
            return;
        }
}

void policy_place(const struct policy *policy, const struct policy_snapshot *snapshot,
                  const struct policy_waiting *waiting, struct place_outcome *ret_outcome)
{
    *ret_outcome = (struct place_outcome){.verdict = POLICY_REFUSES,
                                          .class_index = FLEET_NONE,
                                          .score = -INFINITY,
                                          .now_ms = 0,
                                          .wait_ms = INFINITY};
    if (waiting->needs->devices == 0)
        place_without_device(snapshot, waiting, ret_outcome);
    else if (waiting->needs->devices == 1)
        place_one(policy, snapshot, waiting, ret_outcome);
    else
        place_gang(policy, snapshot, waiting, ret_outcome);
}
