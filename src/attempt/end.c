/*
 * The verdict on an end. A failure may be the fault of a device: the driver reports faults with a
 * delay, MPS must be queried, and a device may still be finding out who caused a fault. Until then
 * the end is in doubt and not reported; each doubt is bounded.
 */
#include <signal.h>
#include <stdio.h>

#include "attempt/attempt_internal.h"
#include "base/str.h"

enum { DOUBT_LOOK_MS = 20, REFUSED_AFTER_MAX = 90 /* bytes of the preceding text */ };

static bool is_in_doubt(const struct attempt_life *life)
{
    const struct attempt_view *view = life->view;
    int64_t doubted_ms = view->now_ms - life->doubt_ms;
    bool is_blamed =
        life->kept.verdict != VERDICT_OWN || (life->is_there && view->verdict != VERDICT_OWN);
    if (!life->exit.told || !attempt_exit_is_failure(&life->exit) || is_blamed)
        return false;
    /* A failure after a stop is expected. */
    if (life->is_there && !attempt_is_stopping(life) &&
        (view->device_asks || doubted_ms < ATTEMPT_FAULT_MS))
        return true;
    return life->traits.uses_mps && !view->mps_is_well && doubted_ms < ATTEMPT_MPS_MS_MAX;
}

/* ---- an end without the supervisor's record ---- */

static void describe_untold_end(const struct attempt_life *life, struct attempt_report *report)
{
    const struct attempt_exit *exit = &life->exit;
    const char *text = exit->text;
    report->never_ran = !exit->recorded;
    if (exit->recorded && !exit->other_boot && life->view->now_ms >= stop_late_ms(life)) {
        report->signal = SIGKILL;
        report->failure = FAILURE_TIMEOUT;
        text = "it ran longer than its time limit, which its supervisor did not enforce";
    } else if (exit->recorded) {
        report->signal = SIGKILL;
        /* A restart of the machine is not a failure of the attempt: a signal without a reason. */
        report->failure = exit->other_boot ? FAILURE_NONE : FAILURE_SIGNAL;
        text = exit->other_boot ? "it ended when the machine was restarted"
                                : "its supervisor was killed";
    } else if (exit->granted_here) {
        report->failure = FAILURE_START;
    }
    if (!text[0])
        text = exit->granted_here ? "its supervisor could not be started"
                                  : "its supervisor ended before it started anything";
    str_copy(report->text, sizeof report->text, text);
}

static void bury(struct attempt_life *life)
{
    struct attempt_report *report = &life->exit.report;
    *report = (struct attempt_report){.workload = life->kept.report.workload,
                                      .attempt = life->kept.report.attempt,
                                      .phase = ATTEMPT_EXITED,
                                      .started_wall_ms = report->started_wall_ms,
                                      .ended_wall_ms = life->view->now_wall_ms,
                                      .exit_code = -1};
    describe_untold_end(life, report);
}

/* ---- the verdict ---- */

/* Blames an end that no agent saw, because MPS passes a fault to all clients and forgets it when
 * they have left. */
static void blame_unseen(struct attempt_life *life)
{
    const struct attempt_exit *exit = &life->exit;
    if (!exit->unseen || !exit->not_alone || !attempt_exit_is_failure(exit) ||
        life->kept.verdict != VERDICT_OWN)
        return;
    (void)life_blame(life, life->traits.kind == WORKLOAD_SERVICE ? VERDICT_MOVED : VERDICT_SUSPECT,
                     "it failed with others of its device, while no agent ran");
}

static void add_refused(struct attempt_life *life)
{
    struct attempt_report *report = &life->kept.report;
    char text[WORKLOAD_TEXT_MAX];
    if (!life->exit.refused[0])
        return;
    str_copy(text, sizeof text, report->text);
    (void)snprintf(report->text, sizeof report->text, "%.*s%s%s", REFUSED_AFTER_MAX, text,
                   text[0] ? "; " : "", life->exit.refused);
}

static void take_verdict(struct attempt_life *life)
{
    struct attempt_report *report = &life->kept.report;
    enum attempt_verdict verdict = life->kept.verdict;
    /* An exceeded time limit is the attempt's own failure, even if its device ended it, too. The
     * user can write the exit record: the limit must be near by the agent's clock. */
    int64_t limit_at_ms = life->kept.limit_at_ms;
    bool is_late = report->failure == FAILURE_TIMEOUT && verdict != VERDICT_GUILTY && limit_at_ms &&
                   life->view->now_ms >= limit_at_ms - ATTEMPT_LATE_MS;
    if (verdict == VERDICT_OWN || is_late)
        return;
    report->verdict = verdict;
    str_copy(report->text, sizeof report->text, life->kept.why);
}

static void end(struct attempt_life *life)
{
    bool is_untold = !life->exit.told;
    if (is_untold)
        bury(life);
    bool failed = attempt_exit_is_failure(&life->exit), cleared = life->kept.report.cleared;
    int turn = life->kept.report.turn, advice = life->kept.report.advice;
    if (life->is_there)
        (void)life_blame(life, life->view->verdict, life->view->verdict_why);
    (void)life_blame(life, life->exit.verdict, life->exit.why);
    blame_unseen(life);
    life->kept.report = life->exit.report;
    life->kept.report.cleared = cleared;
    life->kept.report.turn = turn;
    life->kept.report.advice = advice;
    add_refused(life);
    take_verdict(life);
    life_save(life);
    if (is_untold)
        life_act(life, ATTEMPT_ACT_BURY);
    life_leave(life, failed);
    life_act(life, ATTEMPT_ACT_END);
    life_report(life);
}

void end_tick(struct attempt_life *life)
{
    if (!life->gone)
        return;
    if (life->doubt_ms == 0)
        life->doubt_ms = life->view->now_ms;
    life->doubt_look_ms = life->view->now_ms + DOUBT_LOOK_MS;
    if (!is_in_doubt(life))
        end(life);
}

void end_found(struct attempt_life *life, const struct attempt_exit *exit)
{
    if (!life->gone)
        life->exit = *exit;
    life->gone = true;
    end_tick(life);
}

int64_t end_next_ms(const struct attempt_life *life)
{
    return life->gone ? life->doubt_look_ms : INT64_MAX;
}
