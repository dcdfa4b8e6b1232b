#include <assert.h>
#include <string.h>

#include "attempt/attempt_internal.h"
#include "base/str.h"

const char *attempt_stop_reason_name(enum attempt_stop_reason reason)
{
    static const char *const names[STOP_REASON_END] = {[STOP_REASON_NONE] = "none",
                                                       [STOP_REASON_CONTROL] = "control",
                                                       [STOP_REASON_SUPERVISOR] = "supervisor",
                                                       [STOP_REASON_DEVICE] = "device",
                                                       [STOP_REASON_LOST] = "device_lost"};
    return names[reason];
}

void attempt_life_init(struct attempt_life *life, uint64_t workload, int attempt,
                       const struct attempt_traits *traits)
{
    *life = (struct attempt_life){.traits = *traits,
                                  .kept = {.report = {.workload = workload,
                                                      .attempt = attempt,
                                                      .phase = ATTEMPT_ACCEPTED,
                                                      .exit_code = -1},
                                           .end_by_ms = INT64_MAX},
                                  .stop = {.end_by_ms = INT64_MAX,
                                           .next_ms = INT64_MAX,
                                           .unheard_ms = INT64_MAX,
                                           .force_ms = INT64_MAX},
                                  .patience_ms = INT64_MAX,
                                  .sure_ms = INT64_MAX};
    life->saved = life->kept.report;
}

int64_t life_earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* ---- actions ---- */

struct attempt_action *life_act(struct attempt_life *life, enum attempt_action_kind kind)
{
    struct attempt_actions *actions = life->actions;
    assert(actions->count < ATTEMPT_ACTIONS_MAX);
    struct attempt_action *action = &actions->items[actions->count++];
    *action = (struct attempt_action){.kind = kind};
    return action;
}

void life_report(struct attempt_life *life)
{
    life_act(life, ATTEMPT_ACT_REPORT);
}

void life_save(struct attempt_life *life)
{
    life_act(life, ATTEMPT_ACT_SAVE);
}

void life_say(struct attempt_life *life, const char *text)
{
    str_copy(life->kept.report.text, sizeof life->kept.report.text, text);
}

static void run(struct attempt_life *life)
{
    if (!life->is_there || life->told_running || life->kept.report.phase != ATTEMPT_RUNNING)
        return;
    life->told_running = true;
    life_act(life, ATTEMPT_ACT_RUN);
}

void life_come(struct attempt_life *life)
{
    if (!life->traits.has_devices || life->is_there)
        return;
    life->is_there = true;
    life_act(life, ATTEMPT_ACT_COME);
    run(life);
}

void life_leave(struct attempt_life *life, bool failed)
{
    if (!life->is_there)
        return;
    life->is_there = life->told_running = false;
    life_act(life, ATTEMPT_ACT_LEAVE)->failed = failed;
}

bool life_blame(struct attempt_life *life, enum attempt_verdict verdict, const char *why)
{
    if (verdict <= life->kept.verdict)
        return false;
    life->kept.verdict = verdict;
    str_copy(life->kept.why, sizeof life->kept.why, why);
    return true;
}

/* ---- events ---- */

static void spawn(struct attempt_life *life)
{
    life->spawned = true;
    life_act(life, ATTEMPT_ACT_SPAWN);
}

static void start(struct attempt_life *life, bool ready)
{
    life_report(life);
    life_come(life);
    if (ready)
        spawn(life);
}

static void take_mps(struct attempt_life *life, bool ready)
{
    if (!attempt_waits_for_mps(life))
        return;
    if (!ready) {
        life->traits.uses_mps = false;
        life->kept.without_mps = true;
        life_save(life);
        life_act(life, ATTEMPT_ACT_CHANGE);
    }
    spawn(life);
}

/* Restores an attempt. Resets the eviction, because the device asks again if it still wants the
 * attempt off. */
static void adopt(struct attempt_life *life)
{
    struct attempt_kept *kept = &life->kept;
    life->spawned = true;
    kept->report.evicted = false;
    if (kept->advice.sequence > 0)
        life_act(life, ATTEMPT_ACT_ADVISE);
    if (kept->without_mps)
        life->traits.uses_mps = false;
    if (kept->report.suspension == SUSPENSION_NONE && kept->place == PLACE_DEVICE)
        life_come(life);
    else
        suspension_continue(life);
}

static void see(struct attempt_life *life, bool ready, int64_t started_wall_ms)
{
    enum attempt_phase phase = ready ? ATTEMPT_RUNNING : ATTEMPT_STARTING;
    if (life->gone)
        return;
    if (life->kept.limit_at_ms == 0 && life->traits.time_limit_ms > 0)
        life->kept.limit_at_ms = life->view->now_ms + life->traits.time_limit_ms;
    life->kept.report.started_wall_ms = started_wall_ms;
    if (phase > life->kept.report.phase) {
        life->kept.report.phase = phase;
        life_report(life);
    }
    run(life);
}

static void acquit(struct attempt_life *life, const struct attempt_stop *stop)
{
    life->kept.verdict = stop->verdict;
    str_copy(life->kept.why, sizeof life->kept.why, stop->why);
    life_save(life);
}

static void clear(struct attempt_life *life)
{
    life->kept.report.cleared = true;
    life_report(life);
}

static void take_advice(struct attempt_life *life, const struct advice *advice)
{
    if (advice->sequence > life->kept.advice.sequence && !life->gone) {
        life->kept.advice = *advice;
        life->kept.report.advice = advice->sequence;
        life_save(life);
        life_act(life, ATTEMPT_ACT_ADVISE);
    }
    life_report(life);
}

/* Repeats the actions after an end, which an earlier agent may not have completed. */
static void end_again(struct attempt_life *life)
{
    life_act(life, ATTEMPT_ACT_BURY);
    life_act(life, ATTEMPT_ACT_END);
    life_report(life);
}

/* Answers control's orders for an ended attempt with the report of its end. */
static void answer_after_the_end(struct attempt_life *life, const struct attempt_event *event)
{
    if (event->kind == ATTEMPT_SETTLE)
        life_act(life, ATTEMPT_ACT_PUT_AWAY);
    else if (event->kind == ATTEMPT_ADOPT)
        end_again(life);
    else if (event->kind == ATTEMPT_SUSPEND || event->kind == ATTEMPT_RESUME ||
             event->kind == ATTEMPT_ADVISE ||
             (event->kind == ATTEMPT_STOP && event->stop.reason == STOP_REASON_CONTROL))
        life_report(life);
}

static void take(struct attempt_life *life, const struct attempt_event *event)
{
    switch (event->kind) {
    case ATTEMPT_START:
        start(life, event->ready);
        break;
    case ATTEMPT_ADOPT:
        adopt(life);
        break;
    case ATTEMPT_MPS:
        take_mps(life, event->ready);
        break;
    case ATTEMPT_SEEN:
        see(life, event->ready, event->started_wall_ms);
        break;
    case ATTEMPT_HEARD:
        stop_heard(life);
        break;
    case ATTEMPT_STOP:
        stop_decide(life, &event->stop);
        break;
    case ATTEMPT_ACQUIT:
        acquit(life, &event->stop);
        break;
    case ATTEMPT_CLEARED:
        clear(life);
        break;
    case ATTEMPT_SUSPEND:
    case ATTEMPT_RESUME:
        suspension_order(life, event->turn, event->kind == ATTEMPT_SUSPEND);
        break;
    case ATTEMPT_ADVISE:
        take_advice(life, &event->advice);
        break;
    case ATTEMPT_EVICT:
        suspension_evict(life, event->text);
        break;
    case ATTEMPT_MOVED:
        suspension_moved(life, event->moved, event->text);
        break;
    case ATTEMPT_GONE:
        end_found(life, &event->exit);
        break;
    case ATTEMPT_TICK:
        stop_tick(life);
        suspension_tick(life);
        end_tick(life);
        break;
    case ATTEMPT_SETTLE:
    case ATTEMPT_EVENT_END:
        break;
    }
}

/* ---- durable reports ---- */

static struct attempt_action *find(struct attempt_actions *actions, enum attempt_action_kind kind)
{
    for (size_t i = 0; i < actions->count; i++)
        if (actions->items[i].kind == kind)
            return &actions->items[i];
    return NULL;
}

/* Inserts a SAVE before the first REPORT of facts that are not saved yet, so that the next agent
 * never contradicts what control was told. */
static void save_before_report(struct attempt_life *life)
{
    struct attempt_actions *actions = life->actions;
    const struct attempt_report *report = &life->kept.report;
    struct attempt_action *save = find(actions, ATTEMPT_ACT_SAVE);
    struct attempt_action *told = find(actions, ATTEMPT_ACT_REPORT);
    bool is_news = memcmp(report, &life->saved, sizeof *report) != 0;
    if (told && is_news && (!save || save > told)) {
        size_t after = actions->count - (size_t)(told - actions->items);
        life_save(life);
        memmove(told + 1, told, after * sizeof *told);
        *told = (struct attempt_action){.kind = ATTEMPT_ACT_SAVE};
        save = told;
    }
    if (save)
        life->saved = *report;
}

void attempt_step(struct attempt_life *life, const struct attempt_event *event,
                  const struct attempt_view *view, struct attempt_actions *actions)
{
    actions->count = 0;
    life->actions = actions;
    life->view = view;
    if (event->kind == ATTEMPT_ADOPT)
        life->saved = life->kept.report;
    if (attempt_has_ended(life))
        answer_after_the_end(life, event);
    else
        take(life, event);
    save_before_report(life);
    life->actions = NULL;
    life->view = NULL;
}

int64_t attempt_next_ms(const struct attempt_life *life)
{
    if (attempt_has_ended(life))
        return INT64_MAX;
    return life_earlier(stop_next_ms(life),
                        life_earlier(suspension_next_ms(life), end_next_ms(life)));
}

/* ---- queries ---- */

bool attempt_is_on_devices(const struct attempt_life *life)
{
    return life->is_there;
}

bool attempt_stands_still(const struct attempt_life *life)
{
    return life->kept.report.suspension != SUSPENSION_NONE;
}

bool attempt_has_ended(const struct attempt_life *life)
{
    return life->kept.report.phase == ATTEMPT_EXITED;
}

bool attempt_exit_is_failure(const struct attempt_exit *exit)
{
    if (exit->told)
        return exit->report.failure != FAILURE_NONE;
    return exit->recorded ? !exit->other_boot : exit->granted_here;
}

bool attempt_is_stopping(const struct attempt_life *life)
{
    return life->stop.reason != STOP_REASON_NONE;
}

bool attempt_waits_for_mps(const struct attempt_life *life)
{
    return !life->spawned && !life->gone && !attempt_is_stopping(life) && !attempt_has_ended(life);
}
