/*
 * Previews of submissions. The workloads take turns in the order of the queue. Each one that would
 * be placed is booked, under an id that no workload has, before the next one is decided. All
 * bookings are undone at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

enum { DEPENDENCIES_NAMED = 4, NAMES_MAX = 1024 }; /* limits of a text about dependencies */

struct turn {
    double rank_ms;
    size_t item;
    bool booked;
    struct policy_decision decision; /* if booked */
};

struct previewing {
    struct cluster *cluster;
    const struct cluster_submission *items;
    struct turn *turns;
    struct cluster_preview *results;
    const struct turn *refused; /* the last refusal; NULL: none since the last booking */
};

static int compare_turns(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    if (x->rank_ms < y->rank_ms || x->rank_ms > y->rank_ms)
        return x->rank_ms < y->rank_ms ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Ids start at 1 and increase, so the largest ones are unused. */
static uint64_t imagined_id(const struct turn *t)
{
    return UINT64_MAX - t->item;
}

/* ---- booking ---- */

static void change_allowance(struct cluster *c, const struct cluster_submission *item, int sign)
{
    if (c->config.allowance_count > 0)
        c->allowance_used[item->allowance] += sign * allowance_ppm(c, item->needs);
}

static void book(struct previewing *p, struct turn *t)
{
    struct cluster *c = p->cluster;
    const struct cluster_submission *item = &p->items[t->item];
    struct node *n = c->nodes[t->decision.node];
    struct policy_snapshot snapshot;
    const struct fleet_member member = {.workload = imagined_id(t),
                                        .needs = item->needs,
                                        .node_labels = item->node_labels,
                                        .kind = item->known.kind,
                                        .checkpoints = item->known.checkpoints,
                                        .is_known = item->known.alone_ms > 0,
                                        .alone_ms = item->known.alone_ms,
                                        .begun_ms = c->now.boot_ms};
    t->booked = true;
    p->refused = NULL;
    cluster_inventory(c, &snapshot);
    for (size_t i = 0; i < t->decision.device_count; i++) {
        policy_device_take(&c->policy_devices[t->decision.devices[i]], item->needs);
        if (c->judges &&
            fleet_take(&c->fleet, &snapshot, t->decision.devices[i], &member, c->now.boot_ms) < 0)
            c->failed = true;
    }
    inventory_count(c, n, item->needs, 1);
    change_allowance(c, item, 1);
}

static void give_back(struct previewing *p, struct turn *t)
{
    struct cluster *c = p->cluster;
    const struct cluster_submission *item = &p->items[t->item];
    struct node *n = c->nodes[t->decision.node];
    struct policy_snapshot snapshot;
    double unused_ms;
    cluster_inventory(c, &snapshot);
    for (size_t i = 0; i < t->decision.device_count; i++) {
        policy_device_release(&c->policy_devices[t->decision.devices[i]], item->needs);
        if (c->judges && !c->failed &&
            fleet_release(&c->fleet, &snapshot, t->decision.devices[i], imagined_id(t),
                          c->now.boot_ms, &unused_ms) < 0)
            c->failed = true;
    }
    inventory_count(c, n, item->needs, -1);
    change_allowance(c, item, -1);
}

/* ---- decisions ---- */

/* Returns whether the workload would wait for others, or fail because one has failed. */
static bool depends(const struct previewing *p, const struct cluster_submission *item,
                    char text[WORKLOAD_TEXT_MAX])
{
    size_t unmet = 0;
    struct str names;
    str_init(&names, NAMES_MAX);
    str_append(&names, "waits for");
    bool fails = false;
    for (size_t i = 0; !fails && i < item->after_count; i++) {
        const struct cluster_after *after = &item->after[i];
        const struct finished *row =
            after->within ? NULL : finished_find(p->cluster, after->workload);
        fails = row && after->succeeded && row->state != WORKLOAD_SUCCEEDED;
        if (fails)
            (void)snprintf(text, WORKLOAD_TEXT_MAX, "would fail: workload %llu did not succeed",
                           (unsigned long long)after->workload);
        if (row || unmet++ >= DEPENDENCIES_NAMED)
            continue;
        str_append(&names, unmet > 1 ? ", " : " ");
        if (after->within)
            str_append(&names, p->items[after->workload].name);
        else
            str_printf(&names, "%llu", (unsigned long long)after->workload);
    }
    if (unmet > DEPENDENCIES_NAMED)
        str_printf(&names, " and %zu more", unmet - DEPENDENCIES_NAMED);
    if (unmet > 0 && !fails)
        (void)str_copy(text, WORKLOAD_TEXT_MAX, str_text(&names));
    str_done(&names);
    return fails || unmet > 0;
}

static void tell_placement(const struct cluster *c, const struct policy_decision *decision,
                           struct cluster_preview *ret)
{
    (void)str_copy(ret->node, sizeof ret->node, c->nodes[decision->node]->info.name);
    ret->device_count = (int)decision->device_count;
    for (size_t i = 0; i < decision->device_count; i++)
        (void)str_copy(ret->devices[i], sizeof ret->devices[i],
                       c->policy_devices[decision->devices[i]].uuid);
}

static void ask(struct previewing *p, struct turn *t)
{
    struct cluster *c = p->cluster;
    const struct cluster_submission *item = &p->items[t->item];
    struct cluster_preview *result = &p->results[t->item];
    bool borrows = allowance_borrows(c, item->allowance, item->needs);
    const struct policy_waiting waiting = {.workload = imagined_id(t),
                                           .needs = item->needs,
                                           .node_labels = item->node_labels,
                                           .known = item->known,
                                           .takes_kept =
                                               keep_yields(c, borrows, t->rank_ms, imagined_id(t))};
    struct policy_snapshot snapshot;
    struct place_outcome outcome;
    if (depends(p, item, result->text))
        return;
    /* Elements of an array have the same needs, so one refusal applies to the following ones. */
    if (p->refused && p->items[p->refused->item].needs == item->needs) {
        *result = p->results[p->refused->item];
        return;
    }
    p->refused = t;
    inventory_snapshot(c, &snapshot);
    if (c->failed)
        return;
    snapshot.waiting = &waiting;
    snapshot.waiting_count = 1;
    snapshot.seed = hash_u64(c->config.seed + c->round + 1 + (uint64_t)(t - p->turns));
    if (queue_decide(c, &snapshot, item->allowance, &outcome) == POLICY_PLACES) {
        t->decision = outcome.decision;
        tell_placement(c, &t->decision, result);
        book(p, t);
    } else {
        result->never =
            queue_explain_refusal(c, &snapshot, item->allowance, outcome.verdict, result->text);
    }
}

int cluster_preview(struct error *e, struct cluster *c, const struct cluster_submission *items,
                    size_t count, struct cluster_preview *ret)
{
    int r = submit_check(e, c, items, count);
    if (r < 0)
        return r;
    struct previewing p = {.cluster = c, .items = items, .results = ret};
    p.turns = calloc(count, sizeof *p.turns);
    if (!p.turns)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) {
        ret[i] = (struct cluster_preview){0};
        p.turns[i].item = i;
        p.turns[i].rank_ms =
            queue_rank_ms(c, c->now.wall_ms, items[i].needs->priority, items[i].known.alone_ms);
    }
    qsort(p.turns, count, sizeof *p.turns, compare_turns);
    for (size_t i = 0; !c->failed && i < count; i++)
        ask(&p, &p.turns[i]);
    for (size_t i = count; i-- > 0;)
        if (p.turns[i].booked)
            give_back(&p, &p.turns[i]);
    free(p.turns);
    return c->failed ? error_set(e, ERR_NO_MEMORY, "out of memory") : 0;
}
