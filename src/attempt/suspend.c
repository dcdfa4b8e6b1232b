/*
 * Suspending and resuming an attempt. One move of memory runs at a time; later orders follow it.
 * `place` has the certain knowledge: a failed move off that may have moved memory is undone. If the
 * undoing fails too, or if a return fails half-way, the attempt stays suspended. The agent repeats
 * the move off until a move succeeds or control orders a resume.
 */
#include "attempt/attempt_internal.h"
#include "base/str.h"

static bool is_off(const struct attempt_life *life)
{
    return life->kept.report.suspension == SUSPENSION_DONE;
}

static void move(struct attempt_life *life, bool off, bool again)
{
    life->moves = true;
    life->kept.report.suspension = off ? SUSPENSION_LEAVING : SUSPENSION_RETURNING;
    life_act(life, off ? ATTEMPT_ACT_MOVE_OFF : ATTEMPT_ACT_MOVE_ON)->again = again;
}

static void ask_control(struct attempt_life *life)
{
    life->patience_ms = life->view->now_ms + (life->view->linked ? ATTEMPT_CONTROL_MS : 0);
    life_say(life, life->evicted_why);
    life_report(life);
}

/* Suspended: others may use the room on its devices. The attempt makes no progress, even if the
 * location of its memory is unknown; the memory is then moved off again. */
static void rest(struct attempt_life *life, const char *why)
{
    bool is_certain = life->kept.place == PLACE_HOST;
    life->sure_ms = is_certain ? INT64_MAX : life->view->now_ms + ATTEMPT_SURE_MS;
    life->kept.report.suspension = SUSPENSION_DONE;
    life->kept.report.evicted = false;
    life_save(life);
    life_leave(life, false);
    life_say(life, why);
}

/* Resumed: back on its devices. */
static void wake(struct attempt_life *life)
{
    life->kept.report.suspension = SUSPENSION_NONE;
    life->kept.place = PLACE_DEVICE;
    life_save(life);
    life_come(life);
}

static void stay(struct attempt_life *life, const char *why)
{
    bool was_evicted = life->kept.report.evicted;
    wake(life);
    life->kept.report.evicted = false;
    life_say(life, why);
    life_report(life);
    if (was_evicted)
        str_copy(life_act(life, ATTEMPT_ACT_STAY)->text, WORKLOAD_TEXT_MAX, why);
}

/* Stays suspended until the next order. */
static void give_up_returning(struct attempt_life *life, const char *why)
{
    life->kept.wants_off = true;
    rest(life, why);
}

static void begin_leaving(struct attempt_life *life)
{
    if (!life->traits.has_devices || life->kept.report.phase != ATTEMPT_RUNNING) {
        stay(life, "it does not run on a device");
    } else if (life->traits.uses_mps) {
        stay(life, "it shares its device through MPS, whose clients cannot be suspended: 'gpumux "
                   "requeue' it, or submit it without a quota or where mps is off");
    } else if (life->traits.swappable) {
        stay(life, "it is swappable, and its memory moves by itself when a service needs room: "
                   "'gpumux requeue' it, or submit it without swappable");
    } else {
        move(life, true, false);
        life_report(life);
    }
}

static void begin_returning(struct attempt_life *life)
{
    if (life->view->refusal[0]) {
        give_up_returning(life, life->view->refusal);
    } else {
        life_save(life);
        life_come(life);
        move(life, false, true);
    }
    life_report(life);
}

/* Starts the move that the newest order requires, if any; no other move is in progress. */
static void proceed(struct attempt_life *life)
{
    if (life->kept.wants_off == is_off(life)) {
        life_report(life);
        return;
    }
    life_say(life, "");
    if (life->kept.wants_off)
        begin_leaving(life);
    else
        begin_returning(life);
}

void suspension_order(struct attempt_life *life, int turn, bool off)
{
    if (turn <= life->kept.report.turn || life->gone) {
        life_report(life);
        return;
    }
    life->kept.report.turn = turn;
    life->kept.wants_off = off;
    life_save(life);
    if (life->moves)
        life_report(life);
    else
        proceed(life);
}

void suspension_evict(struct attempt_life *life, const char *why)
{
    if (life->gone)
        return;
    life->kept.report.evicted = true;
    str_copy(life->evicted_why, sizeof life->evicted_why, why);
    /* Otherwise already leaving, or asked again after its return. */
    if (!attempt_stands_still(life))
        ask_control(life);
}

/* ---- the end of a move ---- */

/* Handles a failed move off, or the end of the move that undoes it. */
static void end_failed_leaving(struct attempt_life *life, enum attempt_moved result,
                               const char *why)
{
    bool undoes = life->undone[0] != '\0';
    bool nothing_moved = result == MOVED_FAILED || result == MOVED_REFUSED;
    bool is_on = undoes ? result == MOVED_DONE : life->kept.place == PLACE_DEVICE && nothing_moved;
    char said[WORKLOAD_TEXT_MAX];
    if (!undoes && !is_on && life->is_there && life->kept.place != PLACE_HOST) {
        str_copy(life->undone, sizeof life->undone, why[0] ? why : "it could not be moved");
        life->kept.place = PLACE_UNKNOWN;
        move(life, false, true);
        return;
    }
    str_copy(said, sizeof said, undoes ? life->undone : why);
    life->undone[0] = '\0';
    if (is_on) {
        stay(life, said);
        return;
    }
    if (life->kept.place != PLACE_HOST)
        life->kept.wants_off = true;
    rest(life, said);
    life->sure_ms = life->view->now_ms + ATTEMPT_SURE_MS;
    if (life->kept.wants_off)
        life_report(life);
    else
        proceed(life);
}

void suspension_moved(struct attempt_life *life, enum attempt_moved result, const char *text)
{
    bool leaves = life->kept.report.suspension == SUSPENSION_LEAVING;
    if (!life->moves || life->gone)
        return;
    life->moves = false;
    if (life->undone[0] || (leaves && result != MOVED_DONE)) {
        end_failed_leaving(life, result, text);
        return;
    }
    if (result == MOVED_LOST)
        life->kept.place = PLACE_UNKNOWN;
    else if (leaves)
        life->kept.place = PLACE_HOST;
    if (leaves)
        rest(life, text);
    else if (result == MOVED_DONE)
        wake(life);
    else
        give_up_returning(life, text);
    life_say(life, text);
    if (result == MOVED_DONE && is_off(life) != life->kept.wants_off)
        proceed(life);
    else if (life->kept.report.evicted)
        ask_control(life);
    else
        life_report(life);
}

/* ---- time, and a new agent ---- */

void suspension_tick(struct attempt_life *life)
{
    int64_t now_ms = life->view->now_ms;
    if (now_ms >= life->patience_ms) {
        life->patience_ms = INT64_MAX;
        if (life->kept.report.evicted && !attempt_stands_still(life) && !life->gone) {
            life->kept.report.evicted = false;
            life_say(life, "");
            life_report(life);
            str_copy(life_act(life, ATTEMPT_ACT_STAY)->text, WORKLOAD_TEXT_MAX,
                     "control did not answer");
        }
    }
    if (now_ms >= life->sure_ms) {
        life->sure_ms = INT64_MAX;
        if (is_off(life) && life->kept.wants_off && !life->moves && !life->gone)
            move(life, true, true);
    }
}

void suspension_continue(struct attempt_life *life)
{
    bool is_off_for_sure = life->kept.place == PLACE_HOST && life->kept.wants_off &&
                           life->kept.report.suspension != SUSPENSION_RETURNING;
    if (!is_off_for_sure) { /* the interrupted move, or the next one, may move anything */
        life->kept.place = PLACE_UNKNOWN;
        life_save(life);
        life_come(life);
    }
    move(life, life->kept.wants_off, true);
}

int64_t suspension_next_ms(const struct attempt_life *life)
{
    return life_earlier(life->patience_ms, life->sure_ms);
}
