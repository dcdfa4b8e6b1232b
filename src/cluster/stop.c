/* Stopping attempts: cancel and requeue by a user, and moves by the cluster. */
#include "cluster/cluster_internal.h"

struct workload *stop_target(struct cluster *c, const struct cluster_event *event)
{
    uint64_t id = event->stop.workload;
    struct workload *w = workload_find(c, id);
    const struct finished *row = w ? NULL : finished_find(c, id);
    if (w)
        return w;
    if (!row)
        action_refuse(c, event->request, -ERR_NOT_FOUND, "there is no workload %llu",
                      (unsigned long long)id);
    else if (event->kind == CLUSTER_REQUEUE)
        action_refuse(c, event->request, -ERR_CONFLICT,
                      "it has already ended (%s); submit it again instead",
                      workload_state_name(row->state));
    else
        action_refuse(c, event->request, -ERR_CONFLICT, "it has already ended (%s)",
                      workload_state_name(row->state));
    return NULL;
}

static int64_t grace_of(const struct cluster_event *event, const struct workload *w)
{
    return event->stop.grace_ms < 0 ? w->needs.grace_ms : event->stop.grace_ms;
}

static void begin_stopping(struct cluster *c, struct workload *w, enum stop_cause cause,
                           int64_t grace_ms)
{
    w->status.stop = cause;
    w->stop_grace_ms = grace_ms;
    workload_set_text(w, "%s",
                      cause == STOP_CANCEL ? "being cancelled"
                      : w->wish_node       ? "being moved to a better device"
                      : w->reclaimed
                          ? "being preempted by a workload within its guaranteed allowance"
                      : w->misplaced ? "being moved: much slower than predicted"
                      : w->stranded  ? "being moved: the device to resume on is out of use"
                                     : "being requeued");
    if (w->status.state == WORKLOAD_STOPPING)
        workload_touch(c, w);
    else
        workload_set_state(c, w, WORKLOAD_STOPPING);
    action_log(c, event_stopping, w->id, w->status.attempts_total, w->node->info.name, "%s",
               w->status.text);
    if (w->node->lost)
        attempt_lose(c, w); /* the node cannot be reached */
    else
        workload_send_stop(c, w);
}

void stop_move(struct cluster *c, struct workload *w)
{
    begin_stopping(c, w, STOP_REQUEUE, w->needs.grace_ms);
}

void stop_misplaced(struct cluster *c, struct workload *w)
{
    w->misplaced = true;
    begin_stopping(c, w, STOP_REQUEUE, w->needs.grace_ms);
}

void stop_stranded(struct cluster *c, struct workload *w)
{
    w->stranded = true;
    begin_stopping(c, w, STOP_REQUEUE, w->needs.grace_ms);
}

void stop_reclaim(struct cluster *c, struct workload *w)
{
    w->reclaimed = true;
    begin_stopping(c, w, STOP_REQUEUE, w->needs.grace_ms);
}

void stop_cancel(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = stop_target(c, event);
    if (!w)
        return;
    int64_t grace_ms = grace_of(event, w);
    if (w->status.state == WORKLOAD_QUEUED) {
        workload_set_text(w, "cancelled while waiting");
        workload_end(c, w, WORKLOAD_CANCELLED, FAILURE_NONE);
    } else if (w->status.stop == STOP_CANCEL) {
        if (grace_ms < w->stop_grace_ms) {
            w->stop_grace_ms = grace_ms;
            workload_send_stop(c, w);
        }
    } else {
        if (w->status.stop == STOP_REQUEUE && w->stop_grace_ms < grace_ms)
            grace_ms = w->stop_grace_ms;
        begin_stopping(c, w, STOP_CANCEL, grace_ms);
    }
    action_accept(c, event->request);
}

void stop_requeue(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = stop_target(c, event);
    if (!w)
        return;
    if (w->status.state == WORKLOAD_QUEUED) {
        action_refuse(c, event->request, -ERR_CONFLICT, "it is waiting already");
        return;
    }
    if (w->status.stop == STOP_CANCEL) {
        action_refuse(c, event->request, -ERR_CONFLICT, "it is being cancelled");
        return;
    }
    if (w->status.stop == STOP_NONE)
        begin_stopping(c, w, STOP_REQUEUE, grace_of(event, w));
    action_accept(c, event->request);
}
