/*
 * Suspended tasks. A task whose memory is moved to the host keeps its attempt and its node. Its
 * devices are free for others until the task returns to the same devices, without a place in the
 * queue.
 *
 *   running ─▶ suspending ─▶ suspended ─▶ resuming ─▶ running
 *      ▲           │ failed      ▲            │ failed
 *      └───────────┘             └────────────┘
 *
 * `hold` is the condition for the return: a user's command, or room. An order is repeated until a
 * report has the order's number (`turn`); this report shows the outcome. So an old report never
 * answers a new order.
 */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

enum { FAILURE_TOLD_MS = 10000 }; /* long enough for a client that polls */
static const char failure_text[] = "suspend failed: ";

static bool is_off_or_between(enum workload_state state)
{
    return state == WORKLOAD_SUSPENDING || state == WORKLOAD_SUSPENDED ||
           state == WORKLOAD_RESUMING;
}

static void give_order(struct cluster *c, struct workload *w, enum workload_state state)
{
    w->status.turn++;
    workload_set_state(c, w, state);
    workload_send_turn(c, w);
}

/* ---- leaving ---- */

static void begin_suspending(struct cluster *c, struct workload *w, enum hold hold, const char *why)
{
    w->status.hold = hold;
    workload_set_text(w, "%s", why);
    give_order(c, w, WORKLOAD_SUSPENDING);
    action_log(c, event_suspending, w->id, w->status.attempts_total, w->node->info.name, "%s", why);
}

static void wait_for_room(struct cluster *c, struct workload *w)
{
    if (list_empty(&w->held))
        list_append(&c->held, &w->held);
    c->held_due = true;
}

static void leave_devices(struct cluster *c, struct workload *w)
{
    inventory_release(c, w);
    w->status.off_device = true;
    workload_set_state(c, w, WORKLOAD_SUSPENDED);
    if (w->status.hold == HOLD_ROOM)
        wait_for_room(c, w);
    queue_room_appeared(c);
}

static void suspended(struct cluster *c, struct workload *w, const char *text)
{
    leave_devices(c, w);
    action_log(c, event_suspended, w->id, w->status.attempts_total, w->node->info.name,
               "attempt %d%s%s", w->status.attempts_total, text[0] ? ": " : "", text);
}

/* Returns whether the text is about a failed suspend. The text goes soon, as the task runs on. */
static bool tells_failure(const struct workload *w)
{
    return w->status.state == WORKLOAD_RUNNING && str_starts_with(w->status.text, failure_text);
}

static void not_suspended(struct cluster *c, struct workload *w, const char *text)
{
    w->status.hold = HOLD_NONE;
    workload_set_text(w, "%s%s", failure_text, text);
    workload_set_state(c, w, WORKLOAD_RUNNING);
    timer_set(c, &w->timer, c->now.boot_ms + FAILURE_TOLD_MS);
    action_log(c, event_suspend_failed, w->id, w->status.attempts_total, w->node->info.name, "%s",
               text);
}

/* ---- coming back ---- */

static double gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0 * 1024.0);
}

static void explain(const struct cluster *c, const struct node *n, const struct policy_device *d,
                    const struct workload_needs *needs, enum policy_misfit misfit,
                    char text[WORKLOAD_TEXT_MAX])
{
    const struct device_health *health = cluster_device_health(c, n->info.name, d->uuid);
    uint64_t left_bytes = d->memory_bytes > d->quota_bytes ? d->memory_bytes - d->quota_bytes : 0;
    switch (misfit) {
    case POLICY_UNHEALTHY:
        (void)snprintf(text, WORKLOAD_TEXT_MAX, "the device is %s%s%.80s",
                       device_state_name(health->state), health->cause[0] ? ": " : "",
                       health->cause);
        break;
    case POLICY_NO_MEMORY:
        (void)snprintf(
            text, WORKLOAD_TEXT_MAX,
            "the device has too little memory (%.1f GiB requested, %.1f left by others' quotas)",
            gib(needs->quota_bytes), gib(left_bytes));
        break;
    case POLICY_NO_SHARE:
        (void)snprintf(text, WORKLOAD_TEXT_MAX,
                       "the device has too little free share (%d%% requested, %d%% free)",
                       needs->share_min_percent, 100 - d->share_min_percent);
        break;
    case POLICY_SUSPECT:
        (void)snprintf(text, WORKLOAD_TEXT_MAX, "the device has another suspect of a GPU fault");
        break;
    default:
        (void)snprintf(text, WORKLOAD_TEXT_MAX, "the device is in use");
        break;
    }
}

static const struct policy_device *find_device(const struct cluster *c, const struct node *n,
                                               const char *uuid)
{
    const struct policy_node *p = &c->policy_nodes[n->index];
    for (size_t d = p->first_device; d < p->first_device + p->device_count; d++)
        if (strcmp(c->policy_devices[d].uuid, uuid) == 0)
            return &c->policy_devices[d];
    return NULL;
}

/* The driver can restore memory only on the same devices. A drained node resumes its tasks, as it
 * lets running ones continue. */
static bool fits_again(const struct cluster *c, const struct workload *w,
                       char text[WORKLOAD_TEXT_MAX])
{
    const struct attempt *a = workload_status_attempt(&w->status);
    int most = c->config.policy->one_a_device ? 1 : c->config.max_neighbours;
    if (!w->node->connected) {
        (void)snprintf(text, WORKLOAD_TEXT_MAX, "node %s is not connected", a->node);
        return false;
    }
    for (int i = 0; i < a->device_count; i++) {
        const struct policy_device *d = find_device(c, w->node, a->devices[i]);
        enum policy_misfit misfit = d ? policy_device_room(d, &w->needs, most) : POLICY_FITS;
        if (!d)
            (void)snprintf(text, WORKLOAD_TEXT_MAX, "node %s reports no device", a->node);
        else if (misfit != POLICY_FITS)
            explain(c, w->node, d, &w->needs, misfit, text);
        if (!d || misfit != POLICY_FITS)
            return false;
    }
    return true;
}

/* Returns whether a device of the attempt is gone, or needs an operator. A node without any device
 * may have a problem with its driver, so its tasks wait. */
static bool is_stranded(const struct cluster *c, const struct workload *w)
{
    const struct attempt *a = workload_status_attempt(&w->status);
    const struct node *n = w->node;
    for (int i = 0; n->connected && n->info.device_count > 0 && i < a->device_count; i++) {
        const struct device_health *health = cluster_device_health(c, n->info.name, a->devices[i]);
        if (!health || health->needs_operator)
            return true;
    }
    return false;
}

static void try_resume(struct cluster *c, struct workload *w)
{
    char why[WORKLOAD_TEXT_MAX], text[WORKLOAD_TEXT_MAX];
    if (w->status.state != WORKLOAD_SUSPENDED || w->status.hold != HOLD_ROOM) {
        list_remove(&w->held);
        return;
    }
    if (w->timer.member.position)
        return; /* backing off after a failure */
    if (is_stranded(c, w)) {
        list_remove(&w->held);
        stop_stranded(c, w);
        return;
    }
    if (!fits_again(c, w, why)) {
        (void)snprintf(text, sizeof text, "waits to resume: %.170s", why);
        if (strcmp(text, w->status.text) != 0) {
            workload_set_text(w, "%s", text);
            workload_touch(c, w);
        }
        return;
    }
    list_remove(&w->held);
    w->status.off_device = false;
    workload_set_text(w, "%s", "");
    inventory_book(c, w);
    give_order(c, w, WORKLOAD_RESUMING);
    action_log(c, event_resuming, w->id, w->status.attempts_total, w->node->info.name, "attempt %d",
               w->status.attempts_total);
}

void suspend_run(struct cluster *c)
{
    if (!c->held_due)
        return;
    c->held_due = false;
    list_for_each_safe (it, &c->held)
        try_resume(c, list_entry(it, struct workload, held));
}

static void resumed(struct cluster *c, struct workload *w, const char *text)
{
    w->status.hold = HOLD_NONE;
    w->resume_again_ms = 0;
    workload_set_state(c, w, WORKLOAD_RUNNING);
    action_log(c, event_resumed, w->id, w->status.attempts_total, w->node->info.name,
               "attempt %d%s%s", w->status.attempts_total, text[0] ? ": " : "", text);
}

/* Retries with increasing delay, because the device or its driver may fail again. */
static void not_resumed(struct cluster *c, struct workload *w, const char *text)
{
    int64_t least = c->config.backoff_min_ms, most = c->config.backoff_max_ms;
    w->resume_again_ms = w->resume_again_ms ? w->resume_again_ms * 2 : least;
    if (w->resume_again_ms > most)
        w->resume_again_ms = most;
    leave_devices(c, w);
    workload_set_text(w, "resume failed: %s", text);
    action_log(c, event_resume_failed, w->id, w->status.attempts_total, w->node->info.name, "%s",
               text);
    timer_set(c, &w->timer, c->now.boot_ms + w->resume_again_ms);
}

/* The node could not keep the task suspended: the task uses devices that now belong to others. */
static void came_back(struct cluster *c, struct workload *w)
{
    list_remove(&w->held);
    w->status.off_device = false;
    inventory_book(c, w);
    begin_suspending(c, w, w->status.hold, "the task was on its devices again");
}

/* ---- reports and timers ---- */

/* Handles the outcome of the newest order. */
static void take_outcome(struct cluster *c, struct workload *w, const struct attempt_report *report)
{
    if (report->turn != w->status.turn || !is_off_or_between(w->status.state))
        return;
    if (w->status.state == WORKLOAD_SUSPENDED) {
        if (report->suspension == SUSPENSION_NONE)
            came_back(c, w);
        return;
    }
    timer_clear(c, &w->timer); /* the node has the order */
    bool is_off = report->suspension == SUSPENSION_DONE;
    if (report->suspension != SUSPENSION_NONE && !is_off)
        return;
    if (w->status.state == WORKLOAD_SUSPENDING && is_off)
        suspended(c, w, report->text);
    else if (w->status.state == WORKLOAD_SUSPENDING)
        not_suspended(c, w, report->text);
    else if (is_off)
        not_resumed(c, w, report->text);
    else
        resumed(c, w, report->text);
}

void suspend_report(struct cluster *c, struct workload *w, const struct attempt_report *report)
{
    take_outcome(c, w, report);
    if (w->status.state == WORKLOAD_RUNNING && report->evicted)
        begin_suspending(c, w, HOLD_ROOM, report->text);
}

void suspend_tick(struct cluster *c, struct workload *w)
{
    if (w->status.state == WORKLOAD_SUSPENDING || w->status.state == WORKLOAD_RESUMING)
        workload_send_turn(c, w);
    else if (w->status.state == WORKLOAD_SUSPENDED)
        c->held_due = true;
    if (!tells_failure(w))
        return;
    workload_set_text(w, "%s", "");
    workload_touch(c, w);
}

void suspend_load(struct cluster *c, struct workload *w)
{
    if (w->status.state == WORKLOAD_SUSPENDED && w->status.hold == HOLD_ROOM)
        wait_for_room(c, w);
    if (tells_failure(w))
        timer_set(c, &w->timer, c->now.boot_ms + FAILURE_TOLD_MS);
}

/* ---- users ---- */

/* Returns why the task cannot be suspended, as far as known here; NULL: it can. */
static const char *why_not(const struct workload *w)
{
    if (w->needs.kind == WORKLOAD_SERVICE)
        return "a service is not suspended: it would answer nobody";
    if (w->needs.devices == 0)
        return "it has no device to leave";
    if (w->status.state == WORKLOAD_STOPPING)
        return "it is being ended";
    if (w->status.state != WORKLOAD_RUNNING && !is_off_or_between(w->status.state))
        return "it does not run yet";
    return NULL;
}

void suspend_user(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = stop_target(c, event);
    const char *why = w ? why_not(w) : NULL;
    if (!w)
        return;
    if (why) {
        action_refuse(c, event->request, -ERR_CONFLICT, "%s", why);
        return;
    }
    bool is_on = w->status.state == WORKLOAD_RUNNING || w->status.state == WORKLOAD_RESUMING;
    if (is_on) {
        begin_suspending(c, w, HOLD_USER, "suspended by a user");
    } else if (w->status.hold != HOLD_USER) { /* already suspended for room: stays suspended now */
        w->status.hold = HOLD_USER;
        workload_set_text(w, "suspended by a user");
        workload_touch(c, w);
    }
    action_accept(c, event->request);
}

void resume_user(struct cluster *c, const struct cluster_event *event)
{
    struct workload *w = stop_target(c, event);
    if (!w)
        return;
    if (!is_off_or_between(w->status.state)) {
        action_refuse(c, event->request, -ERR_CONFLICT, "it is not suspended");
        return;
    }
    if (w->status.hold == HOLD_USER) {
        w->status.hold = HOLD_ROOM;
        workload_set_text(w, "%s", "");
        workload_touch(c, w);
        if (w->status.state == WORKLOAD_SUSPENDED)
            wait_for_room(c, w);
    }
    if (w->status.state == WORKLOAD_SUSPENDED)
        timer_clear(c, &w->timer); /* retry at once */
    c->held_due = true;
    action_accept(c, event->request);
}
