/*
 * The queue. Workloads that may start wait in the queue of their requirement. When the first
 * workload of a requirement is refused, the whole requirement is set aside until room appears. So a
 * submission to a full cluster costs one insertion, and a device that becomes free costs one
 * decision per requirement.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

enum {
    EXPLANATIONS_MAX = 16, /* new refusal texts in a step and until the next */
    KEEPS_MAX = 8,         /* workloads per step for which devices to keep are searched */
    AHEAD_MAX = 1024,      /* limit when counting the workloads ahead of another */
    AHEAD_OF_ONE_MAX = 64, /* the same within one requirement */
    LENGTH_UNKNOWN_MS = 10 * 60 * 1000, /* assumed length of a workload of unknown length */
};
/* With shortest_first: weight of a workload's remaining time, relative to its waiting time. */
#define LENGTH_WEIGHT 10.0

bool queue_workload_before(const struct heap_member *a, const struct heap_member *b)
{
    const struct workload *x = list_entry(a, const struct workload, queued);
    const struct workload *y = list_entry(b, const struct workload, queued);
    if (x->rank_ms < y->rank_ms || x->rank_ms > y->rank_ms)
        return x->rank_ms < y->rank_ms;
    return x->id < y->id;
}

bool queue_requirement_before(const struct heap_member *a, const struct heap_member *b)
{
    const struct requirement *x = list_entry(a, const struct requirement, ready);
    const struct requirement *y = list_entry(b, const struct requirement, ready);
    if (x->borrows != y->borrows)
        return y->borrows;
    return queue_workload_before(heap_first(&x->queue), heap_first(&y->queue));
}

void queue_order_changed(struct cluster *c, uint32_t allowance)
{
    size_t cursor = 0;
    void *value;
    while (hash_map_next(&c->requirements, &cursor, NULL, &value))
        for (struct requirement *r = value; r; r = r->next) {
            if (r->allowance != allowance ||
                r->borrows == allowance_borrows(c, allowance, &r->needs))
                continue;
            r->borrows = !r->borrows;
            heap_moved(&c->ready, &r->ready);
        }
}

static bool is_refused(const struct requirement *r)
{
    return !list_empty(&r->refused);
}

/* Restores the ready heap after the queue changed while the requirement was out of the heap. */
static void make_ready(struct cluster *c, struct requirement *r)
{
    if (r->queue.count > 0 && !is_refused(r) && heap_insert(&c->ready, &r->ready) < 0)
        c->failed = true;
}

void queue_leave(struct cluster *c, struct workload *w)
{
    struct requirement *r = w->requirement;
    if (!w->queued.position)
        return;
    if (c->keeper == w)
        keep_end(c);
    /* Removed first, because the order of a requirement follows from its first workload. */
    heap_remove(&c->ready, &r->ready);
    heap_remove(&r->queue, &w->queued);
    if (r->queue.count == 0)
        list_remove(&r->refused);
    make_ready(c, r);
}

/*
 * The rank has the form of a time. Waiting counts equally for all workloads, and a point of
 * priority counts as `ageing_ms` of waiting, so no later workload goes first for ever. With
 * shortest_first, remaining time counts as well; it is a time too, so waiting outweighs it in the
 * end.
 */
double queue_rank_ms(const struct cluster *c, int64_t submitted_wall_ms, int priority,
                     double left_ms)
{
    double rank = (double)submitted_wall_ms - (double)priority * (double)c->config.ageing_ms;
    if (c->config.policy->shortest_first)
        rank += LENGTH_WEIGHT * (left_ms > 0 ? left_ms : LENGTH_UNKNOWN_MS);
    return rank;
}

void queue_consider(struct cluster *c, struct workload *w)
{
    struct requirement *r = w->requirement;
    if (w->status.state != WORKLOAD_QUEUED || w->unmet_count > 0 || w->timer.member.position ||
        w->queued.position)
        return;
    heap_remove(&c->ready, &r->ready);
    r->borrows = allowance_borrows(c, r->allowance, &r->needs);
    w->rank_ms = queue_rank_ms(c, w->status.submitted_wall_ms, w->needs.priority, w->left_ms);
    if (heap_insert(&r->queue, &w->queued) < 0)
        c->failed = true;
    if (is_refused(r) && c->keeper && keep_yields(c, r->borrows, w->rank_ms, w->id)) {
        r->asked = false; /* the kept devices exclude its other workloads */
        list_remove(&r->refused);
    }
    make_ready(c, r);
    rounds_arm(c);
}

void queue_room_appeared(struct cluster *c)
{
    c->held_due = true;
    list_for_each_safe (it, &c->refused) {
        struct requirement *r = list_entry(it, struct requirement, refused);
        list_remove(it);
        make_ready(c, r);
    }
}

static struct policy_snapshot snapshot_of(struct cluster *c, const struct policy_waiting *waiting)
{
    struct policy_snapshot snapshot;
    inventory_snapshot(c, &snapshot);
    snapshot.waiting = waiting;
    snapshot.waiting_count = 1;
    return snapshot;
}

/* Returns the number of refused workloads that precede this one. */
static size_t count_ahead(const struct cluster *c, const struct workload *w)
{
    size_t ahead = 0;
    if (!c->config.policy->waits)
        return 0;
    list_for_each (it, &c->refused) {
        const struct requirement *r = list_entry(it, const struct requirement, refused);
        for (size_t i = 0; i < r->queue.count && i < AHEAD_OF_ONE_MAX; i++)
            ahead += queue_workload_before(r->queue.members[i], &w->queued);
        if (ahead >= AHEAD_MAX)
            break;
    }
    return ahead;
}

struct policy_waiting queue_waiting(const struct cluster *c, const struct workload *w)
{
    struct policy_waiting waiting = {
        .workload = w->id,
        .needs = &w->needs,
        .node_labels = &w->requirement->node_labels,
        .waited_ms = c->now.boot_ms - w->queued_boot_ms,
        .known = w->known,
        .takes_kept = keep_yields(c, w->requirement->borrows, w->rank_ms, w->id)};
    if (w->known.checkpoints)
        waiting.known.alone_ms = w->left_ms;
    return waiting;
}

enum policy_verdict queue_decide(struct cluster *c, const struct policy_snapshot *snapshot,
                                 uint32_t allowance, struct place_outcome *ret_outcome)
{
    *ret_outcome = (struct place_outcome){.verdict = POLICY_REFUSES};
    if (allowance_is_spent(c, allowance, snapshot->waiting->needs))
        return POLICY_REFUSES;
    if (c->judges) {
        policy_place(c->config.policy, snapshot, &snapshot->waiting[0], ret_outcome);
        return ret_outcome->verdict;
    }
    if (c->device_count > 0)
        memcpy(c->scratch, c->policy_devices, c->device_count * sizeof *c->scratch);
    if (c->config.policy->decide(snapshot, c->scratch, &ret_outcome->decision) > 0)
        ret_outcome->verdict = POLICY_PLACES;
    return ret_outcome->verdict;
}

/* Explains an objection of the policy to devices that have room. */
static bool explain_objection(const struct policy_snapshot *snapshot, const struct cluster *c,
                              char text[WORKLOAD_TEXT_MAX])
{
    struct policy_candidate best;
    if (!c->judges || snapshot->waiting->needs->devices == 0 ||
        policy_candidates(c->config.policy, snapshot, snapshot->waiting, &best, 1) == 0 ||
        best.misfit != POLICY_FITS || best.objection == POLICY_OBJECTS_NONE)
        return false;
    (void)snprintf(text, WORKLOAD_TEXT_MAX, "devices have room, but %s",
                   policy_objection_text(best.objection));
    return true;
}

bool queue_explain_refusal(struct cluster *c, const struct policy_snapshot *snapshot,
                           uint32_t allowance, enum policy_verdict verdict,
                           char text[WORKLOAD_TEXT_MAX])
{
    text[0] = '\0';
    if (allowance_is_spent(c, allowance, snapshot->waiting->needs))
        return allowance_explain(c, allowance, snapshot->waiting->needs, text);
    if (verdict == POLICY_WAITS)
        (void)snprintf(text, WORKLOAD_TEXT_MAX,
                       "waiting for the next free device ends sooner than starting now");
    else if (!c->failed && !explain_objection(snapshot, c, text))
        return policy_explain_misfit(snapshot, snapshot->waiting, c->config.policy, text);
    return false;
}

/* Returns the text of the present refusal, created on demand. The text may be older if many were
 * created since the last step. */
static const char *refusal_text(struct cluster *c, struct requirement *r)
{
    if (r->explained == c->facts || (r->explained && c->explanations_left == 0))
        return r->text;
    c->explanations_left -= c->explanations_left > 0;
    const struct workload *first = list_entry(heap_first(&r->queue), struct workload, queued);
    struct policy_waiting waiting = {.needs = &r->needs,
                                     .node_labels = &r->node_labels,
                                     .known = {.kind = r->kind},
                                     .takes_kept =
                                         keep_yields(c, r->borrows, first->rank_ms, first->id)};
    struct policy_snapshot snapshot = snapshot_of(c, &waiting);
    r->explained = c->facts;
    r->never = queue_explain_refusal(c, &snapshot, r->allowance,
                                     r->could ? POLICY_WAITS : POLICY_REFUSES, r->text);
    keep_explain(c, r, r->text);
    return r->text;
}

static void refuse(struct cluster *c, struct requirement *r, const struct place_outcome *outcome)
{
    heap_remove(&c->ready, &r->ready);
    list_append(&c->refused, &r->refused);
    c->facts++;
    r->could = outcome->verdict == POLICY_WAITS;
    r->asked = c->judges && r->needs.devices > 0;
    r->best_score = outcome->score;
    r->seen = c->changes;
    if (r->could)
        timer_set(c, &r->timer, c->now.boot_ms + outcome->retry_ms);
}

void queue_requirement_tick(struct cluster *c, struct requirement *r)
{
    if (!is_refused(r))
        return;
    r->asked = false; /* the verdict also depends on the time */
    list_remove(&r->refused);
    make_ready(c, r);
}

/* Returns whether no device that changed since the refusal is better than the best one then. */
static bool is_refused_still(const struct cluster *c, const struct policy_snapshot *snapshot,
                             const struct requirement *r)
{
    if (!r->asked || c->changes - r->seen > CHANGES_KEPT)
        return false;
    for (uint64_t i = r->seen; i < c->changes; i++) {
        struct policy_candidate now;
        policy_consider(c->config.policy, snapshot, snapshot->waiting,
                        c->fleet.devices[c->changed[i % CHANGES_KEPT]].class_index, &now);
        if (now.misfit == POLICY_FITS && now.objection == POLICY_OBJECTS_NONE &&
            now.score >= r->best_score)
            return false;
    }
    return true;
}

static void refuse_still(struct cluster *c, struct requirement *r)
{
    heap_remove(&c->ready, &r->ready);
    list_append(&c->refused, &r->refused);
    r->seen = c->changes;
}

void queue_run(struct cluster *c)
{
    struct heap_member *top;
    c->explanations_left = EXPLANATIONS_MAX;
    c->keeps_left = KEEPS_MAX;
    while (!c->failed && (top = heap_first(&c->ready)) != NULL) {
        struct requirement *r = list_entry(top, struct requirement, ready);
        struct workload *w = list_entry(heap_first(&r->queue), struct workload, queued);
        struct policy_waiting waiting = queue_waiting(c, w);
        struct policy_snapshot snapshot = snapshot_of(c, &waiting);
        struct place_outcome outcome;
        snapshot.seed = hash_u64(c->config.seed + ++c->round);
        if (c->failed)
            return;
        if (is_refused_still(c, &snapshot, r)) {
            if (!r->could)
                keep_refused(c, w, &snapshot);
            refuse_still(c, r);
            continue;
        }
        waiting.ahead = count_ahead(c, w);
        timer_clear(c, &r->timer);
        if (allowance_is_spent(c, r->allowance, &r->needs)) {
            outcome = (struct place_outcome){.verdict = POLICY_REFUSES};
            if (c->keeper == w)
                keep_end(c);
            refuse(c, r, &outcome);
            r->asked = false; /* the policy was not asked */
            continue;
        }
        c->decisions++;
        if (queue_decide(c, &snapshot, r->allowance, &outcome) != POLICY_PLACES) {
            if (outcome.verdict == POLICY_REFUSES) {
                allowance_reclaim(c, &snapshot, &waiting, r);
                keep_refused(c, w, &snapshot);
            }
            refuse(c, r, &outcome);
            continue;
        }
        r->asked = false;
        queue_leave(c, w);
        attempt_open(c, w, &outcome.decision);
    }
}

void queue_explain(struct cluster *c, struct workload *w)
{
    if (w->unmet_count > 0)
        depend_explain(w, w->status.text);
    else if (w->queued.position && is_refused(w->requirement))
        (void)str_copy(w->status.text, sizeof w->status.text, refusal_text(c, w->requirement));
}

const char *cluster_note(struct cluster *c, uint64_t workload, bool *ret_never)
{
    struct workload *w = workload_find(c, workload);
    if (!w || w->status.state != WORKLOAD_QUEUED)
        return NULL;
    const struct requirement *r = w->requirement;
    queue_explain(c, w);
    *ret_never = w->queued.position && is_refused(r) && r->never;
    return w->status.text;
}
