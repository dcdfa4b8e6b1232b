/* Appends actions to the caller's list, the last part of every step. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

#define EVENT(word, help) const char event_##word[] = #word;
#include "cluster/events.def"
#undef EVENT

void cluster_actions_init(struct cluster_actions *actions)
{
    *actions = (struct cluster_actions){0};
}

void cluster_actions_done(struct cluster_actions *actions)
{
    free(actions->items);
    *actions = (struct cluster_actions){0};
}

struct cluster_action *action_add(struct cluster *c, enum cluster_action_kind kind)
{
    struct cluster_actions *all = c->actions;
    if (all->count == all->capacity) {
        size_t capacity = all->capacity ? all->capacity * 2 : 16;
        struct cluster_action *items = realloc(all->items, capacity * sizeof *items);
        if (!items) {
            c->failed = true;
            return NULL;
        }
        all->items = items;
        all->capacity = capacity;
    }
    struct cluster_action *a = &all->items[all->count++];
    *a = (struct cluster_action){.kind = kind};
    return a;
}

void action_log(struct cluster *c, const char *what, uint64_t workload, int attempt,
                const char *node, const char *format, ...)
{
    struct cluster_action *a = action_add(c, CLUSTER_EVENT_LOG);
    va_list args;
    if (!a)
        return;
    a->what = what;
    a->workload = workload;
    a->attempt = attempt;
    a->node = node;
    va_start(args, format);
    (void)vsnprintf(a->text, sizeof a->text, format, args);
    va_end(args);
}

struct cluster_action *action_accept(struct cluster *c, uint64_t request)
{
    struct cluster_action *a = request ? action_add(c, CLUSTER_REPLY) : NULL;
    if (a)
        a->request = request;
    return a;
}

struct cluster_action *action_refuse(struct cluster *c, uint64_t request, int result,
                                     const char *format, ...)
{
    struct cluster_action *a = action_accept(c, request);
    va_list args;
    if (!a)
        return NULL;
    a->result = result;
    va_start(args, format);
    (void)vsnprintf(a->text, sizeof a->text, format, args);
    va_end(args);
    return a;
}

static struct cluster_action *send_to(struct cluster *c, struct node *n,
                                      enum cluster_action_kind kind, uint64_t workload, int attempt)
{
    struct cluster_action *a = n->connected ? action_add(c, kind) : NULL;
    if (!a)
        return NULL;
    a->node = n->info.name;
    a->session = n->session;
    a->sequence = ++n->sequence;
    a->workload = workload;
    a->attempt = attempt;
    return a;
}

void action_send_stop(struct cluster *c, struct node *n, uint64_t workload, int attempt,
                      int64_t grace_ms)
{
    struct cluster_action *a = send_to(c, n, CLUSTER_SEND_STOP, workload, attempt);
    if (a)
        a->grace_ms = grace_ms;
}

void action_send_settle(struct cluster *c, struct node *n, uint64_t workload, int attempt)
{
    (void)send_to(c, n, CLUSTER_SEND_SETTLE, workload, attempt);
}

static void flush_store(struct cluster *c, struct workload *w)
{
    if (!w->store_due)
        return;
    if (w->status.state == WORKLOAD_QUEUED)
        queue_explain(c, w);
    struct cluster_action *a = action_add(c, w->is_new ? CLUSTER_STORE_NEW : CLUSTER_STORE_STATUS);
    if (!a)
        return;
    a->workload = w->id;
    a->item = w->item;
    a->status = &w->status;
    w->is_new = w->store_due = false;
}

/* Sends pending messages of a workload. The timer repeats an unconfirmed one. */
static void flush_sends(struct cluster *c, struct workload *w)
{
    bool grant = w->grant_due && w->node && w->status.state == WORKLOAD_PLACED;
    bool stop = w->stop_due && w->node && (w->status.state == WORKLOAD_STOPPING || w->forgotten);
    bool suspend = w->turn_due && w->node && w->status.state == WORKLOAD_SUSPENDING;
    bool resume = w->turn_due && w->node && w->status.state == WORKLOAD_RESUMING;
    bool advise = w->advice_due && w->node && w->status.state == WORKLOAD_RUNNING;
    w->grant_due = w->stop_due = w->turn_due = w->advice_due = false;
    if ((!grant && !stop && !suspend && !resume && !advise) || !w->node->connected)
        return;
    int attempt = w->status.attempts_total;
    if (suspend || resume) {
        struct cluster_action *a = send_to(
            c, w->node, suspend ? CLUSTER_SEND_SUSPEND : CLUSTER_SEND_RESUME, w->id, attempt);
        if (a)
            a->turn = w->status.turn;
    } else if (advise) {
        struct cluster_action *a = send_to(c, w->node, CLUSTER_SEND_ADVISE, w->id, attempt);
        if (a)
            a->advice = w->status.advice;
    } else if (grant) {
        struct cluster_action *a = send_to(c, w->node, CLUSTER_SEND_GRANT, w->id, attempt);
        if (a) {
            a->placed = workload_status_attempt(&w->status);
            a->suspect = w->needs.suspect;
            a->ran_before = workload_status_ran_before(&w->status);
        }
    } else {
        action_send_stop(c, w->node, w->id, attempt, w->forgotten ? 0 : w->stop_grace_ms);
    }
    timer_set(c, &w->timer, c->now.boot_ms + c->config.resend_ms);
}

void actions_flush(struct cluster *c)
{
    list_for_each (it, &c->touched)
        flush_store(c, list_entry(it, struct workload, touched));
    list_for_each (it, &c->buried)
        flush_store(c, list_entry(it, struct workload, touched));
    list_for_each_safe (it, &c->touched) {
        struct workload *w = list_entry(it, struct workload, touched);
        list_remove(it);
        flush_sends(c, w);
    }
}
