/* Attempts: opened by a placement, updated by reports of the node, closed once. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cluster/cluster_internal.h"

enum { KILLS_FORGIVEN = 3 };

/* Appends an attempt; the oldest is dropped at the limit. Returns NULL if out of memory. */
static struct attempt *append_attempt(struct workload_status *status)
{
    if (status->attempts_kept == WORKLOAD_ATTEMPTS_KEPT) {
        memmove(status->attempts, status->attempts + 1,
                (WORKLOAD_ATTEMPTS_KEPT - 1) * sizeof *status->attempts);
        status->attempts_kept--;
    } else {
        size_t bytes = ((size_t)status->attempts_kept + 1) * sizeof *status->attempts;
        struct attempt *attempts = realloc(status->attempts, bytes);
        if (!attempts)
            return NULL;
        status->attempts = attempts;
    }
    struct attempt *a = &status->attempts[status->attempts_kept++];
    *a = (struct attempt){.number = ++status->attempts_total, .exit_code = -1};
    return a;
}

void attempt_attach(struct cluster *c, struct workload *w, struct node *n)
{
    w->node = n;
    list_append(&n->open, &w->on_node);
    w->booked_boot_ms = c->now.boot_ms;
    w->misplaced_since_ms = 0;
    w->measured_pd = w->predicted_pd = 0;
    w->is_slowness_told = false;
    if (!w->status.off_device)
        inventory_book(c, w);
    inventory_count(c, n, &w->needs, 1);
}

void attempt_open(struct cluster *c, struct workload *w, const struct policy_decision *decision)
{
    struct node *n = c->nodes[decision->node];
    struct attempt *a = append_attempt(&w->status);
    if (!a) {
        c->failed = true;
        return;
    }
    a->placed_wall_ms = c->now.wall_ms;
    a->device_count = (int)decision->device_count;
    (void)str_copy(a->node, sizeof a->node, n->info.name);
    for (size_t i = 0; i < decision->device_count; i++)
        (void)str_copy(a->devices[i], sizeof a->devices[i],
                       c->policy_devices[decision->devices[i]].uuid);
    w->phase = ATTEMPT_PHASE_END;
    w->forgotten = false;
    w->running_boot_ms = 0;
    w->status.text[0] = '\0';
    if (!w->known.checkpoints)
        w->left_ms = w->known.alone_ms;
    attempt_attach(c, w, n);
    workload_set_state(c, w, WORKLOAD_PLACED);
    workload_send_grant(c, w);
    action_log(c, event_placed, w->id, a->number, n->info.name, "attempt %d on %s, %d device%s",
               a->number, n->info.name, a->device_count, a->device_count == 1 ? "" : "s");
}

static void detach(struct cluster *c, struct workload *w)
{
    struct node *n = w->node;
    inventory_release(c, w);
    list_remove(&w->on_node);
    w->node = NULL;
    list_remove(&w->held);
    w->grant_due = w->stop_due = w->turn_due = w->advice_due = w->forgotten = false;
    advise_detach(w);
    w->status.hold = HOLD_NONE;
    w->status.off_device = false;
    w->resume_again_ms = 0;
    timer_clear(c, &w->timer);
    inventory_count(c, n, &w->needs, -1);
    queue_room_appeared(c);
}

/* Queues the workload for another attempt without counting a failure. */
static void requeue(struct cluster *c, struct workload *w, const char *why)
{
    w->status.stop = STOP_NONE;
    w->reclaimed = w->misplaced = w->stranded = false;
    w->queued_boot_ms = c->now.boot_ms;
    workload_set_text(w, "%s", why);
    workload_set_state(c, w, WORKLOAD_QUEUED);
    action_log(c, event_requeued, w->id, w->status.attempts_total, NULL, "%s", why);
    if (!rounds_place_wished(c, w))
        queue_consider(c, w);
}

static void cancel(struct cluster *c, struct workload *w)
{
    bool ran = workload_status_attempt(&w->status)->started_wall_ms != 0;
    workload_set_text(w, ran ? "cancelled while running" : "cancelled before running");
    workload_end(c, w, WORKLOAD_CANCELLED, FAILURE_NONE);
}

static void back_off(struct cluster *c, struct workload *w)
{
    char until[CLOCK_TEXT_MAX];
    int64_t least = c->config.backoff_min_ms, most = c->config.backoff_max_ms;
    int64_t wait_ms = w->status.backoff_ms < least ? least : w->status.backoff_ms;
    if (w->status.backoff_ms >= least)
        wait_ms = wait_ms > most / 2 ? most : wait_ms * 2;
    if (wait_ms > most)
        wait_ms = most;
    w->status.backoff_ms = wait_ms;
    w->queued_boot_ms = c->now.boot_ms;
    workload_set_text(w, "backing off until %s after failure %d (%s)",
                      clock_format(c->now.wall_ms + wait_ms, until), w->status.failures,
                      failure_reason_name(workload_status_attempt(&w->status)->failure));
    workload_set_state(c, w, WORKLOAD_QUEUED);
    action_log(c, event_requeued, w->id, w->status.attempts_total, NULL, "%s", w->status.text);
    timer_set(c, &w->timer, c->now.boot_ms + wait_ms);
}

/* Returns whether the start failed twice on the same node for the same reason, as with a missing
 * account. Starts on other nodes in between do not matter. */
static bool is_hopeless(const struct workload_status *status)
{
    int last = status->attempts_kept - 1;
    const struct attempt *a = &status->attempts[last];
    for (int i = last - 1; a->failure == FAILURE_START && i >= 0; i--) {
        const struct attempt *before = &status->attempts[i];
        if (before->failure != FAILURE_START)
            break;
        if (str_equal(a->node, before->node) && str_equal(a->text, before->text))
            return true;
    }
    return false;
}

/* Returns how many failures to retry. SIGKILL comes from outside, for instance from the kernel when
 * memory is short, so a task may be killed a few times even without retries. */
static int forgiven(const struct workload *w, const struct attempt *a)
{
    bool killed = a->failure == FAILURE_SIGNAL && a->signal == SIGKILL;
    return killed && w->needs.retries < KILLS_FORGIVEN ? KILLS_FORGIVEN : w->needs.retries;
}

/* Handles a failure that the workload itself caused. A service is always restarted; a task is
 * restarted while retries are left and another start may succeed. */
static void own_failure(struct cluster *c, struct workload *w, struct node *n, int64_t ran_ms)
{
    struct attempt *a = workload_status_attempt(&w->status);
    if (a->failure == FAILURE_START && doubt_failed(c, w, n)) {
        char why[WORKLOAD_TEXT_MAX];
        (void)snprintf(why, sizeof why, "the start failed on %s%s%.80s", a->node,
                       a->text[0] ? ": " : "", a->text);
        requeue(c, w, why);
        return;
    }
    bool again = w->needs.kind == WORKLOAD_SERVICE ||
                 (w->status.failures < forgiven(w, a) && !is_hopeless(&w->status));
    w->status.failures++;
    if (w->needs.kind == WORKLOAD_SERVICE && ran_ms > c->config.backoff_max_ms)
        w->status.backoff_ms = 0;
    if (again) {
        back_off(c, w);
        return;
    }
    if (a->text[0])
        workload_set_text(w, "%s", a->text);
    else if (a->failure == FAILURE_START)
        workload_set_text(w, "the start failed");
    else if (a->failure == FAILURE_TIMEOUT)
        workload_set_text(w, "time limit reached");
    else if (a->signal)
        workload_set_text(w, "ended by signal %d", a->signal);
    else
        workload_set_text(w, "exited with code %d", a->exit_code);
    workload_end(c, w, WORKLOAD_FAILED, a->failure);
}

static void record_exit(struct cluster *c, struct workload *w, const struct attempt_report *report)
{
    struct attempt *a = workload_status_attempt(&w->status);
    int64_t started_wall_ms =
        report->started_wall_ms ? report->started_wall_ms : a->started_wall_ms;
    a->outcome = report->outcome;
    a->started_wall_ms = started_wall_ms;
    if (report->started_wall_ms)
        w->status.started_wall_ms = started_wall_ms;
    if (!a->ended_wall_ms)
        a->ended_wall_ms = c->now.wall_ms;
    a->verdict = report->verdict;
    if (a->verdict != VERDICT_OWN)
        a->failure = a->verdict == VERDICT_GUILTY ? FAILURE_FAULT : FAILURE_NONE;
    else if (w->needs.kind == WORKLOAD_SERVICE && !a->never_ran && !a->signal &&
             a->failure == FAILURE_NONE)
        a->failure = FAILURE_EXIT; /* a service must not end, whatever its exit code */
    if (a->never_ran)
        a->exit_code = -1;
    w->status.exit_code = a->exit_code;
    w->status.signal = a->signal;
    action_log(c, event_exited, w->id, a->number, w->node->info.name, "attempt %d: %s%s%s",
               a->number, a->failure == FAILURE_NONE ? "ended" : failure_reason_name(a->failure),
               a->text[0] ? ": " : "", a->text);
}

/* Handles an end caused by the device. A workload that caused too many GPU faults fails. */
static void device_ended(struct cluster *c, struct workload *w, const struct attempt_report *report)
{
    if (report->verdict == VERDICT_MOVED) {
        requeue(c, w, report->text);
        return;
    }
    if (report->verdict == VERDICT_GUILTY)
        w->status.faults++;
    if (w->status.faults >= c->config.faults_max) {
        workload_set_text(w, "GPU fault %d caused by the workload: %.140s", w->status.faults,
                          report->text);
        workload_end(c, w, WORKLOAD_FAILED, FAILURE_FAULT);
        return;
    }
    workload_set_suspect(c, w, true);
    requeue(c, w, report->text);
}

static void attempt_exited(struct cluster *c, struct workload *w,
                           const struct attempt_report *report)
{
    int64_t ran_ms = w->running_boot_ms ? c->now.boot_ms - w->running_boot_ms : 0;
    bool forgotten = w->forgotten;
    struct node *n = w->node;
    const struct attempt *a;
    record_exit(c, w, report);
    if (!report->never_ran && report->failure != FAILURE_START && !w->running_boot_ms)
        doubt_worked(c, w); /* the run was too short to be reported as running */
    action_send_settle(c, w->node, w->id, report->attempt);
    detach(c, w);
    a = workload_status_attempt(&w->status);
    if (w->status.stop == STOP_CANCEL) {
        cancel(c, w);
    } else if (w->status.stop == STOP_REQUEUE) {
        requeue(c, w,
                w->wish_node   ? "moved to a better device"
                : w->reclaimed ? "preempted by a workload within its guaranteed allowance"
                : w->misplaced ? "moved: much slower than predicted"
                : w->stranded  ? "moved: the device to resume on is out of use"
                               : "requeued by a user");
    } else if (report->verdict != VERDICT_OWN) {
        device_ended(c, w, report);
    } else if (report->never_ran && a->failure == FAILURE_NONE) {
        requeue(c, w, "the node no longer knows the attempt");
    } else if (a->failure == FAILURE_NONE && a->signal) {
        requeue(c, w, "the node ended the attempt");
    } else if (a->failure == FAILURE_NONE) {
        workload_set_text(w, "%s", "");
        workload_end(c, w, WORKLOAD_SUCCEEDED, FAILURE_NONE);
    } else if (forgotten) {
        requeue(c, w, "the node no longer knows the attempt");
    } else {
        own_failure(c, w, n, ran_ms);
    }
}

static void attempt_progress(struct cluster *c, struct workload *w,
                             const struct attempt_report *report)
{
    struct attempt *a = workload_status_attempt(&w->status);
    bool newer = w->phase == ATTEMPT_PHASE_END || report->phase > w->phase;
    if (report->cleared && w->needs.suspect) {
        workload_set_suspect(c, w, false);
        action_log(c, event_cleared, w->id, a->number, w->node->info.name, "attempt %d", a->number);
    }
    if (!newer) {
        suspend_report(c, w, report);
        advise_report(c, w, report);
        return;
    }
    w->phase = report->phase;
    if (w->status.state == WORKLOAD_PLACED)
        timer_clear(c, &w->timer); /* confirms the grant */
    if (report->phase >= ATTEMPT_STARTING && !a->started_wall_ms) {
        a->started_wall_ms = report->started_wall_ms ? report->started_wall_ms : c->now.wall_ms;
        w->status.started_wall_ms = a->started_wall_ms;
        workload_touch(c, w);
    }
    if (report->phase == ATTEMPT_RUNNING && !w->running_boot_ms) {
        w->running_boot_ms = c->now.boot_ms;
        doubt_worked(c, w);
    }
    if (w->status.state == WORKLOAD_STOPPING)
        return;
    if (report->phase == ATTEMPT_STARTING && w->status.state == WORKLOAD_PLACED) {
        workload_set_state(c, w, WORKLOAD_STARTING);
        action_log(c, event_starting, w->id, a->number, w->node->info.name, "attempt %d",
                   a->number);
    } else if (report->phase == ATTEMPT_RUNNING &&
               (w->status.state == WORKLOAD_PLACED || w->status.state == WORKLOAD_STARTING)) {
        workload_set_state(c, w, WORKLOAD_RUNNING);
        advise_report(c, w, report);
        action_log(c, event_running, w->id, a->number, w->node->info.name, "attempt %d", a->number);
    }
}

void attempt_report(struct cluster *c, struct node *n, const struct attempt_report *report)
{
    struct workload *w = workload_find(c, report->workload);
    if (!w || w->node != n || w->status.attempts_total != report->attempt) {
        /* The attempt is not, or no longer, open: it must end, and the node may then forget it. */
        if (report->phase == ATTEMPT_EXITED)
            action_send_settle(c, n, report->workload, report->attempt);
        else
            action_send_stop(c, n, report->workload, report->attempt, 0);
        return;
    }
    w->listed = true;
    if (report->phase == ATTEMPT_EXITED)
        attempt_exited(c, w, report);
    else
        attempt_progress(c, w, report);
}

void attempt_lose(struct cluster *c, struct workload *w)
{
    struct attempt *a = workload_status_attempt(&w->status);
    a->lost = true;
    a->ended_wall_ms = c->now.wall_ms;
    (void)snprintf(a->text, sizeof a->text, "the node was lost%s",
                   w->needs.kind == WORKLOAD_SERVICE ? "; this copy may still run" : "");
    w->status.exit_code = -1;
    w->status.signal = 0;
    detach(c, w);
    if (w->status.stop == STOP_CANCEL)
        cancel(c, w);
    else if (w->needs.kind == WORKLOAD_SERVICE)
        requeue(c, w, "the node was lost; the old copy may still run there");
    else
        requeue(c, w, "the node was lost");
}

void workload_tick(struct cluster *c, struct workload *w)
{
    if (w->dependency_failed) {
        depend_fail(c, w, w->dependency_failed);
    } else if (w->status.state == WORKLOAD_QUEUED) {
        queue_consider(c, w);
    } else if (w->status.state == WORKLOAD_PLACED) {
        workload_send_grant(c, w);
    } else if (w->status.state == WORKLOAD_STOPPING || w->forgotten) {
        workload_send_stop(c, w);
    } else {
        suspend_tick(c, w);
        advise_tick(c, w);
    }
}
