/* One step: the event, due timers, their consequences, the queue, and last the actions. */
#include "cluster/cluster_internal.h"

static void handle(struct cluster *c, const struct cluster_event *event)
{
    switch (event->kind) {
    case CLUSTER_SUBMIT:
        submit_handle(c, event);
        break;
    case CLUSTER_CANCEL:
        stop_cancel(c, event);
        break;
    case CLUSTER_REQUEUE:
        stop_requeue(c, event);
        break;
    case CLUSTER_SUSPEND:
        suspend_user(c, event);
        break;
    case CLUSTER_RESUME:
        resume_user(c, event);
        break;
    case CLUSTER_ADVISE:
        advise_user(c, event);
        break;
    case CLUSTER_DRAIN:
        node_drain(c, event);
        break;
    case CLUSTER_LEARN:
        workload_learn(c, event);
        break;
    case CLUSTER_MEASURED:
        workload_measured(c, event);
        break;
    case CLUSTER_FORECAST:
        workload_forecast(c, event);
        break;
    case CLUSTER_NODE_HELLO:
        node_hello(c, event);
        break;
    case CLUSTER_NODE_REPORT:
    case CLUSTER_NODE_BEAT:
    case CLUSTER_NODE_GONE:
        node_message(c, event);
        break;
    case CLUSTER_TICK:
    case CLUSTER_EVENT_END:
        break;
    }
}

/* Runs all due timers. A handler may set its timer again, but only to a later time; pruning is
 * bounded for each step. */
static void run_timers(struct cluster *c)
{
    struct heap_member *first;
    bool prune = false;
    while ((first = heap_first(&c->timers)) != NULL) {
        struct timer *t = list_entry(first, struct timer, member);
        if (t->due_boot_ms > c->now.boot_ms)
            break;
        timer_clear(c, t);
        switch (t->owner) {
        case TIMER_WORKLOAD:
            workload_tick(c, list_entry(t, struct workload, timer));
            break;
        case TIMER_NODE:
            node_tick(c, list_entry(t, struct node, timer));
            break;
        case TIMER_RETENTION:
            prune = true;
            break;
        case TIMER_REQUIREMENT:
            queue_requirement_tick(c, list_entry(t, struct requirement, timer));
            break;
        case TIMER_ROUND:
            c->round_due = true;
            break;
        }
    }
    /* The pruning at the end of the step sets the timer again. */
    if (prune)
        timer_set(c, &c->finished.timer, c->now.boot_ms);
}

static void free_buried(struct cluster *c)
{
    list_for_each_safe (it, &c->buried)
        workload_free(c, list_entry(it, struct workload, touched));
}

int cluster_step(struct cluster *c, const struct cluster_event *event,
                 struct cluster_actions *actions)
{
    if (c->failed)
        return -ERR_NO_MEMORY;
    free_buried(c);
    c->actions = actions;
    c->now.wall_ms = event->now.wall_ms;
    if (event->now.boot_ms > c->now.boot_ms)
        c->now.boot_ms = event->now.boot_ms;
    finished_watch_clock(c);
    /* The event precedes timers, because a message that just arrived ends the node's silence. */
    handle(c, event);
    run_timers(c);
    do {
        depend_settle(c);
        suspend_run(c);
        rounds_run(c);
        queue_run(c);
    } while (!list_empty(&c->ended));
    actions_flush(c);
    if (c->finished.timer.member.position && c->finished.timer.due_boot_ms <= c->now.boot_ms)
        finished_prune(c);
    c->actions = NULL;
    return c->failed ? -ERR_NO_MEMORY : 0;
}

int64_t cluster_next_tick(const struct cluster *c)
{
    const struct heap_member *first = heap_first(&c->timers);
    return first ? list_entry(first, const struct timer, member)->due_boot_ms : INT64_MAX;
}
