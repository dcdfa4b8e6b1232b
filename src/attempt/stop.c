/*
 * Stopping an attempt. The supervisor is told to end the attempt within the grace period. Killing a
 * client of MPS while its kernels run would take its neighbours down, so its GPU work is ended
 * shortly before the deadline. Ending GPU work would harm a neighbour that is joining the server,
 * so this waits for such neighbours, within a bound. Then the attempt is killed. A supervisor that
 * acknowledges nothing is signalled.
 *
 * A workload has the uid of its supervisor: it can stop the supervisor, and acknowledge in its
 * place. So no acknowledgement counts beyond the deadline. Some seconds later the supervisor is
 * signalled; then the agent kills the processes itself, first those below the supervisor, whose
 * record of the end is still welcome, then the supervisor, too. Likewise the agent enforces a time
 * limit that the supervisor should have enforced.
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
    int64_t longest_ms = grace_ms + (uses_mps ? ATTEMPT_JOIN_MS_MAX : 0);
    life->stop.force_ms = now_ms + longest_ms + ATTEMPT_FORCE_MS;
    life_act(life, ATTEMPT_ACT_ASK)->grace_ms = longest_ms;
}

/* Saves blame and deadline before the supervisor is told. A device that lacks room for the attempt
 * blames nobody: the attempt is moved. */
static void remember(struct attempt_life *life, const struct attempt_stop *stop, int64_t end_by_ms)
{
    bool is_moved = stop->reason == STOP_REASON_DEVICE && stop->verdict == VERDICT_OWN;
    enum attempt_verdict verdict = is_moved ? VERDICT_MOVED : stop->verdict;
    bool is_news = life_blame(life, verdict, stop->why);
    if (verdict != VERDICT_OWN && end_by_ms < life->kept.end_by_ms) {
        life->kept.end_by_ms = end_by_ms;
        is_news = true;
    }
    if (is_news)
        life_save(life);
}

static int64_t grace_of(const struct attempt_life *life, const struct attempt_stop *stop)
{
    int64_t grace_ms = stop->grace_ms < 0 ? ATTEMPT_GRACE_MS : stop->grace_ms;
    if (attempt_stands_still(life))
        return 0; /* a suspended process cannot use its grace */
    /* A device's whole grace is for an orderly end; GPU work is ended after it. */
    if (stop->reason == STOP_REASON_DEVICE && grace_ms > 0)
        grace_ms += ATTEMPT_END_WORK_MS;
    return life->traits.uses_mps && grace_ms < ATTEMPT_END_WORK_MS ? ATTEMPT_END_WORK_MS : grace_ms;
}

void stop_decide(struct attempt_life *life, const struct attempt_stop *stop)
{
    bool is_first = !attempt_is_stopping(life);
    if (stop->reason == STOP_REASON_CONTROL)
        life_report(life);
    if (life->gone)
        return;
    int64_t grace_ms = grace_of(life, stop), end_by_ms = life->view->now_ms + grace_ms;
    remember(life, stop, end_by_ms);
    if (end_by_ms >= life->stop.end_by_ms)
        return;
    life->stop.reason = stop->reason;
    if (!life->spawned) {
        life->stop.end_by_ms = end_by_ms;
        if (is_first)
            life_act(life, ATTEMPT_ACT_GIVE_UP);
    } else if (life->stop.stage <= STOP_ASKED) {
        ask(life, grace_ms);
    } /* otherwise the kill is in progress and cannot be earlier */
}

void stop_heard(struct attempt_life *life)
{
    if (life->stop.unheard_ms < life->stop.force_ms - ATTEMPT_ANSWER_MS)
        life->stop.unheard_ms = life->stop.force_ms - ATTEMPT_ANSWER_MS;
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
    life->stop.unheard_ms =
        life_earlier(life->stop.unheard_ms, life->view->now_ms + ATTEMPT_ANSWER_MS);
    life_act(life, ATTEMPT_ACT_KILL);
}

int64_t stop_late_ms(const struct attempt_life *life)
{
    int64_t limit_at_ms = life->kept.limit_at_ms;
    return limit_at_ms ? limit_at_ms + life->traits.grace_ms + ATTEMPT_LATE_MS : INT64_MAX;
}

void stop_tick(struct attempt_life *life)
{
    const struct attempt_stop late = {.reason = STOP_REASON_SUPERVISOR};
    int64_t now_ms = life->view->now_ms;
    if (life->gone)
        return;
    if (!life->stop.late && now_ms >= stop_late_ms(life)) {
        life->stop.late = true;
        stop_decide(life, &late);
    }
    if (now_ms >= life->stop.unheard_ms) {
        life->stop.unheard_ms = now_ms + ATTEMPT_ANSWER_MS;
        life_act(life, ATTEMPT_ACT_SIGNAL);
    }
    if (now_ms >= life->stop.force_ms) {
        life->stop.force_ms = now_ms + ATTEMPT_KILL_AGAIN_MS;
        life_act(life, ATTEMPT_ACT_FORCE)->again = life->stop.forced;
        life->stop.forced = true;
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
    int64_t next_ms = life_earlier(life->stop.next_ms, life->stop.unheard_ms);
    if (!life->stop.late)
        next_ms = life_earlier(next_ms, stop_late_ms(life));
    return life_earlier(next_ms, life->stop.force_ms);
}
