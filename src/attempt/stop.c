/*
 * Stopping an attempt. The supervisor is told to end the attempt within the grace period. Killing a
 * client of MPS while its kernels run would take its neighbours down, so its GPU work is ended
 * shortly before the deadline. Ending GPU work would harm a neighbour that is joining the server,
 * so this waits for such neighbours, within a bound. Then the attempt is killed. A supervisor that
 * acknowledges nothing is signalled.
 */
#include "attempt/attempt_internal.h"
#include "base/str.h"

static void ask(struct attempt_life *life, int64_t grace_ms)
{
    int64_t now_ms = life->view->now_ms;
    bool uses_mps = life->traits.uses_mps;
    life->stop.stage = STOP_ASKED;
    life->stop.end_by_ms = now_ms + grace_ms;
    life->stop.next_ms = uses_mps ? now_ms + grace_ms - ATTEMPT_END_WORK_MS : INT64_MAX;
    life->stop.unheard_ms = now_ms + ATTEMPT_ANSWER_MS;
    /* The supervisor kills by itself only if this agent is gone by then. */
    life_act(life, ATTEMPT_ACT_ASK)->grace_ms = grace_ms + (uses_mps ? ATTEMPT_JOIN_MS_MAX : 0);
}

/* Saves blame and deadline before the supervisor is told. */
static void remember(struct attempt_life *life, const struct attempt_stop *stop, int64_t end_by_ms)
{
    bool is_news = life_blame(life, stop->verdict, stop->why);
    if (stop->verdict != VERDICT_OWN && end_by_ms < life->kept.end_by_ms) {
        life->kept.end_by_ms = end_by_ms;
        is_news = true;
    }
    if (is_news)
        life_save(life);
}

void stop_decide(struct attempt_life *life, const struct attempt_stop *stop)
{
    int64_t grace_ms = stop->grace_ms > 0 ? stop->grace_ms : 0;
    if (stop->reason == STOP_REASON_CONTROL)
        life_report(life);
    if (life->gone)
        return;
    if (attempt_stands_still(life))
        grace_ms = 0; /* a suspended process cannot use its grace */
    else if (life->traits.uses_mps && grace_ms < ATTEMPT_END_WORK_MS)
        grace_ms = ATTEMPT_END_WORK_MS;
    int64_t end_by_ms = life->view->now_ms + grace_ms;
    bool waits = attempt_waits_for_mps(life);
    remember(life, stop, end_by_ms);
    if (end_by_ms >= life->stop.end_by_ms)
        return;
    life->stop.reason = stop->reason;
    if (waits) {
        life->stop.end_by_ms = end_by_ms;
        life_act(life, ATTEMPT_ACT_GIVE_UP);
    } else if (life->stop.stage <= STOP_ASKED) {
        ask(life, grace_ms);
    } /* otherwise the kill is in progress and cannot be earlier */
}

void stop_heard(struct attempt_life *life)
{
    life->stop.unheard_ms = INT64_MAX;
}

static void end_work(struct attempt_life *life)
{
    int64_t now_ms = life->view->now_ms;
    if (life->stop.join_until_ms == 0)
        life->stop.join_until_ms = now_ms + ATTEMPT_JOIN_MS_MAX;
    if (life->view->others_join && now_ms < life->stop.join_until_ms) {
        life->stop.next_ms = now_ms + ATTEMPT_JOIN_LOOK_MS;
        return;
    }
    life->stop.stage = STOP_WORK_ENDED;
    life->stop.next_ms = now_ms + ATTEMPT_END_WORK_MS;
    life_act(life, ATTEMPT_ACT_END_WORK);
}

static void kill(struct attempt_life *life)
{
    life->stop.stage = STOP_KILLED;
    life->stop.next_ms = life->view->now_ms + ATTEMPT_KILL_AGAIN_MS;
    if (life->stop.unheard_ms == INT64_MAX)
        life->stop.unheard_ms = life->view->now_ms + ATTEMPT_ANSWER_MS;
    life_act(life, ATTEMPT_ACT_KILL);
}

void stop_tick(struct attempt_life *life)
{
    int64_t now_ms = life->view->now_ms;
    if (life->gone)
        return;
    if (now_ms >= life->stop.unheard_ms) {
        life->stop.unheard_ms = now_ms + ATTEMPT_ANSWER_MS;
        life_act(life, ATTEMPT_ACT_SIGNAL);
    }
    if (now_ms < life->stop.next_ms)
        return;
    if (life->stop.stage == STOP_ASKED)
        end_work(life);
    else
        kill(life);
}

int64_t stop_next_ms(const struct attempt_life *life)
{
    if (life->gone)
        return INT64_MAX;
    return life->stop.next_ms < life->stop.unheard_ms ? life->stop.next_ms : life->stop.unheard_ms;
}
