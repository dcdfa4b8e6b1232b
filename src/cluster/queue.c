/*
 * The queue. Workloads that may start wait in the queue of their requirement; a requirement whose
 * first one was refused is set aside until room appears, and with it all that ask for the same. So
 * a submission to a full cluster costs one insertion, and a freed device one try a requirement.
 */
#include <stdio.h>
#include <string.h>

#include "cluster/cluster_internal.h"

/* Heads of the queue whose stored text is brought up to date in one step. */
enum { EXPLANATIONS_MAX = 8 };

bool queue_workload_before(const struct heap_member *a, const struct heap_member *b)
{
    const struct workload *x = list_entry(a, const struct workload, queued);
    const struct workload *y = list_entry(b, const struct workload, queued);
    if (x->needs.priority != y->needs.priority)
        return x->needs.priority > y->needs.priority;
    return x->id < y->id;
}

bool queue_requirement_before(const struct heap_member *a, const struct heap_member *b)
{
    return queue_workload_before(
        heap_first(&list_entry(a, const struct requirement, ready)->queue),
        heap_first(&list_entry(b, const struct requirement, ready)->queue));
}

static bool is_refused(const struct requirement *r)
{
    return !list_empty(&r->refused);
}

/* After its queue changed while it was out of the ready heap. */
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
    /* Out of the heap before its order changes: a requirement is ordered by its first workload. */
    heap_remove(&c->ready, &r->ready);
    heap_remove(&r->queue, &w->queued);
    if (r->queue.count == 0)
        list_remove(&r->refused);
    make_ready(c, r);
}

void queue_consider(struct cluster *c, struct workload *w)
{
    struct requirement *r = w->requirement;
    if (w->status.state != WORKLOAD_QUEUED || w->unmet_count > 0 || w->timer.member.position ||
        w->queued.position)
        return;
    heap_remove(&c->ready, &r->ready);
    if (heap_insert(&r->queue, &w->queued) < 0)
        c->failed = true;
    make_ready(c, r);
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
    cluster_inventory(c, &snapshot);
    snapshot.waiting = waiting;
    snapshot.waiting_count = 1;
    snapshot.seed = hash_u64(c->config.seed + ++c->round);
    return snapshot;
}

static struct policy_waiting waiting_of(const struct cluster *c, const struct workload *w)
{
    return (struct policy_waiting){.workload = w->id,
                                   .needs = &w->needs,
                                   .node_labels = &w->requirement->node_labels,
                                   .waited_ms = c->now.boot_ms - w->queued_boot_ms,
                                   .known = w->known};
}

/* The text of the present refusal, made when somebody needs it. */
static const char *refusal_text(struct cluster *c, struct requirement *r)
{
    if (!r->explained) {
        struct policy_waiting waiting = {.needs = &r->needs, .node_labels = &r->node_labels};
        struct policy_snapshot snapshot = snapshot_of(c, &waiting);
        policy_explain_misfit(&snapshot, &waiting, c->config.policy, r->text);
        r->explained = true;
    }
    return r->text;
}

static void refuse(struct cluster *c, struct requirement *r, struct workload *first)
{
    heap_remove(&c->ready, &r->ready);
    list_append(&c->refused, &r->refused);
    r->explained = false;
    if (first->store_due || c->explanations_left == 0)
        return;
    c->explanations_left--;
    if (strcmp(first->status.text, refusal_text(c, r)) != 0)
        workload_touch(c, first);
}

void queue_run(struct cluster *c)
{
    struct heap_member *top;
    c->explanations_left = EXPLANATIONS_MAX;
    while (!c->failed && (top = heap_first(&c->ready)) != NULL) {
        struct requirement *r = list_entry(top, struct requirement, ready);
        struct workload *w = list_entry(heap_first(&r->queue), struct workload, queued);
        struct policy_waiting waiting = waiting_of(c, w);
        struct policy_snapshot snapshot = snapshot_of(c, &waiting);
        struct policy_decision decision;
        if (c->device_count > 0)
            memcpy(c->scratch, c->policy_devices, c->device_count * sizeof *c->scratch);
        if (c->config.policy->decide(&snapshot, c->scratch, &decision) == 0) {
            refuse(c, r, w);
            continue;
        }
        queue_leave(c, w);
        attempt_open(c, w, &decision);
    }
}

void queue_explain(struct cluster *c, struct workload *w)
{
    if (w->unmet_count > 0)
        depend_explain(w);
    else if (w->queued.position && is_refused(w->requirement))
        workload_set_text(w, "%s", refusal_text(c, w->requirement));
}
