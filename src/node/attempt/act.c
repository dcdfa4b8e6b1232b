/* Runs the state machine of an attempt: collects the view, steps one event after the other, and
 * carries out the actions. */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/agent_internal.h"

/* ---- events ---- */

static void look_around(struct run *r, const struct attempt_event *event, struct attempt_view *view)
{
    bool ends = event->kind == ATTEMPT_GONE || r->life.gone;
    const struct attempt_exit *exit = event->kind == ATTEMPT_GONE ? &event->exit : &r->life.exit;
    *view = (struct attempt_view){.now_ms = clock_boot_ms(),
                                  .now_wall_ms = clock_wall_ms(),
                                  .linked = r->agent->link.welcomed};
    if (attempt_is_stopping(&r->life))
        view->others_join = protect_others_join(r);
    if (attempt_stands_still(&r->life) && monitor_readmits(r, view->refusal))
        view->refusal[0] = '\0';
    if (!ends)
        return;
    monitor_judge(r, attempt_exit_is_failure(exit), view);
    view->mps_is_well = protect_mps_is_well(r, r->life.doubt_ms ? r->life.doubt_ms : view->now_ms);
}

static void save(struct run *r)
{
    struct error e = {0};
    if (own_record_save(&e, r->agent->records_fd, r->name, &r->own, &r->life.kept) < 0)
        log_write(r->agent->log, LOG_ERROR, "attempt record not saved", "attempt=%s error=\"%s\"",
                  r->name, e.text);
}

static void end(struct run *r)
{
    const struct attempt_report *report = &r->life.kept.report;
    event_del(r->look);
    pending_free(r);
    mailbox_done(r);
    suspend_end(r);
    protect_end(r);
    log_write(r->agent->log, LOG_INFO, "attempt ended",
              "attempt=%s failure=%s exit_code=%d signal=%d stop=%s verdict=%s", r->name,
              failure_reason_name(report->failure), report->exit_code, report->signal,
              attempt_stop_reason_name(r->life.stop.reason), attempt_verdict_name(report->verdict));
    reader_wake(r->agent);
}

static void post(struct run *r, enum control_kind kind, int64_t grace_ms)
{
    const struct control_command command = {.kind = kind, .grace_ms = grace_ms};
    /* the state machine sends SIGTERM to the supervisor in time */
    if (mailbox_post(r, 0, &command) < 0)
        log_write(r->agent->log, LOG_ERROR, "stop not posted", "attempt=%s reason=memory", r->name);
}

/* Passes the newest advice to processes with the shim through their pages, and to others through
 * the supervisor. */
static void advise(struct run *r)
{
    const struct advice *advice = &r->life.kept.advice;
    const struct control_command command = {
        .kind = CONTROL_ADVISE,
        .advice = {.sequence = (uint64_t)advice->sequence,
                   .batch = (uint64_t)advice->batch,
                   .checkpoints = (uint64_t)advice->checkpoints}};
    session_advise(r->session, advice);
    if (mailbox_post(r, 0, &command) < 0)
        log_write(r->agent->log, LOG_WARN, "advice not posted", "attempt=%s reason=memory",
                  r->name);
}

static void carry_out(struct run *r, const struct attempt_action *action)
{
    switch (action->kind) {
    case ATTEMPT_ACT_SAVE:
        save(r);
        break;
    case ATTEMPT_ACT_REPORT:
        run_report(r);
        break;
    case ATTEMPT_ACT_SPAWN:
        launch_supervisor(r);
        break;
    case ATTEMPT_ACT_GIVE_UP:
        launch_give_up(r, "it was not started");
        break;
    case ATTEMPT_ACT_ASK:
        post(r, CONTROL_STOP, action->grace_ms);
        break;
    case ATTEMPT_ACT_KILL:
        post(r, CONTROL_KILL, 0);
        break;
    case ATTEMPT_ACT_END_WORK:
        protect_end_work(r);
        break;
    case ATTEMPT_ACT_SIGNAL:
        run_signal(r);
        break;
    case ATTEMPT_ACT_FORCE:
        run_force(r, action->again);
        break;
    case ATTEMPT_ACT_COME:
    case ATTEMPT_ACT_RUN:
    case ATTEMPT_ACT_CHANGE:
    case ATTEMPT_ACT_STAY:
    case ATTEMPT_ACT_LEAVE:
        monitor_tell(r, action);
        break;
    case ATTEMPT_ACT_ADVISE:
        advise(r);
        break;
    case ATTEMPT_ACT_MOVE_OFF:
    case ATTEMPT_ACT_MOVE_ON:
        suspend_move(r, action->kind == ATTEMPT_ACT_MOVE_OFF, action->again);
        break;
    case ATTEMPT_ACT_BURY:
        run_bury(r);
        break;
    case ATTEMPT_ACT_END:
        end(r);
        break;
    case ATTEMPT_ACT_PUT_AWAY:
    case ATTEMPT_ACTION_END:
        break;
    }
}

static void tick_at(struct run *r)
{
    int64_t next_ms = attempt_next_ms(&r->life), wait_ms = next_ms - clock_boot_ms();
    if (next_ms == INT64_MAX) {
        event_del(r->tick);
        return;
    }
    if (wait_ms < 0)
        wait_ms = 0;
    const struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    event_add(r->tick, &wait);
}

static void step(struct run *r, const struct attempt_event *event)
{
    struct attempt_actions actions;
    struct attempt_view view;
    look_around(r, event, &view);
    attempt_step(&r->life, event, &view, &actions);
    /* Samples of the devices do not concern a suspended attempt. */
    session_rest(r->session, attempt_stands_still(&r->life));
    for (size_t i = 0; i < actions.count; i++)
        carry_out(r, &actions.items[i]);
    tick_at(r);
    if (actions.count > 0 && actions.items[actions.count - 1].kind == ATTEMPT_ACT_PUT_AWAY)
        run_put_away(r);
}

/* ---- queueing ---- */

void agent_hold(struct agent *a)
{
    a->held++;
}

void agent_release(struct agent *a)
{
    while (a->held == 1 && !list_empty(&a->events)) {
        struct queued_event *q = list_entry(a->events.next, struct queued_event, link);
        struct run *r = run_find(a, q->workload, q->attempt);
        list_remove(&q->link);
        if (r)
            step(r, &q->event);
        free(q);
    }
    a->held--;
}

void run_tell(struct run *r, const struct attempt_event *event)
{
    struct agent *a = r->agent;
    struct queued_event *q = malloc(sizeof *q);
    if (!q) {
        log_write(a->log, LOG_ERROR, "attempt event dropped", "attempt=%s reason=memory", r->name);
        return;
    }
    *q = (struct queued_event){.workload = r->workload, .attempt = r->attempt, .event = *event};
    list_append(&a->events, &q->link);
    agent_hold(a);
    agent_release(a);
}

void run_tell_kind(struct run *r, enum attempt_event_kind kind)
{
    const struct attempt_event event = {.kind = kind};
    run_tell(r, &event);
}

void run_stop(struct run *r, const struct attempt_stop *stop)
{
    const struct attempt_event event = {.kind = ATTEMPT_STOP, .stop = *stop};
    run_tell(r, &event);
}
