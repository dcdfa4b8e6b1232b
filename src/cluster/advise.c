/*
 * Advice to the programs of a workload: a batch size, and requests for checkpoints. Like the orders
 * to suspend, advice is stored before it is sent, and repeated until a report shows its number. The
 * batch size stays for later attempts; the requests for checkpoints end with the attempt.
 */
#include "cluster/cluster_internal.h"

static bool is_unheard(const struct workload *w)
{
    return w->node && w->status.state == WORKLOAD_RUNNING &&
           w->status.advice.sequence > w->advice_heard;
}

void advise_tick(struct cluster *c, struct workload *w)
{
    if (is_unheard(w))
        workload_send_advice(c, w);
}

void advise_report(struct cluster *c, struct workload *w, const struct attempt_report *report)
{
    if (report->advice > w->advice_heard)
        w->advice_heard = report->advice;
    if (!w->timer.member.position) /* otherwise the timer repeats the advice */
        advise_tick(c, w);
}

void advise_detach(struct workload *w)
{
    w->advice_heard = 0;
    w->status.advice.checkpoints = 0;
}

/* Returns why the advice cannot be given; NULL: it can. */
static const char *why_not(const struct workload *w, const struct cluster_event *event)
{
    if (w->status.state == WORKLOAD_STOPPING)
        return "it is being ended";
    if (event->advise.checkpoint && w->status.state != WORKLOAD_RUNNING)
        return "it does not run, so it has nothing to save";
    return NULL;
}

void advise_user(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = stop_target(c, event);
    const char *why = w ? why_not(w, event) : NULL;
    if (!w)
        return;
    if (why) {
        action_refuse(c, event->request, -ERR_CONFLICT, "%s", why);
        return;
    }
    struct advice *advice = &w->status.advice;
    if (event->advise.batch >= 0)
        advice->batch = event->advise.batch;
    if (event->advise.checkpoint)
        advice->checkpoints++;
    advice->sequence++;
    workload_touch(c, w);
    advise_tick(c, w);
    action_log(c, event_advised, w->id, w->status.attempts_total,
               w->node ? w->node->info.name : NULL, "batch size %lld, %d checkpoint%s requested",
               (long long)advice->batch, advice->checkpoints, advice->checkpoints == 1 ? "" : "s");
    action_accept(c, event->request);
}
