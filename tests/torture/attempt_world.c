#include "attempt_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"

enum {
    SUPERVISOR_MS = 2000, /* time limit for an honest supervisor to acknowledge and to end */
    MOVE_MS_MAX = 4000,
    /* From the deadline of a stop until no process is alive. */
    END_MS_MAX = ATTEMPT_JOIN_MS_MAX + ATTEMPT_FORCE_MS + ATTEMPT_KILL_AGAIN_MS + 1000,
};

void world_check(const struct world *w, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr,
            "seed %" PRIu64 ", event %" PRIu64 " at %" PRId64 " ms: %s\n"
            "replay: GPUMUX_SEED=0 attempt_torture --seed %" PRIu64 " --events 1\n",
            w->seed, w->events, w->now_ms, what, w->seed);
    exit(1);
}

bool world_chance(struct world *w, uint64_t in)
{
    return rng_below(&w->rng, in) == 0;
}

int64_t world_up_to(struct world *w, int64_t most)
{
    return (int64_t)rng_below(&w->rng, (uint64_t)most + 1);
}

/* A move that did not end may have moved all, nothing or a part. */
void world_interrupt_move(struct world *w)
{
    static const enum memory results[] = {MEMORY_ON, MEMORY_OFF, MEMORY_MIXED};
    bool had_arrived = w->memory == (w->moves_off ? MEMORY_OFF : MEMORY_ON);
    if (!had_arrived)
        w->memory = results[rng_below(&w->rng, 3)];
}

/* ---- the agent's crash ---- */

void world_crash(struct world *w)
{
    w->up = false;
    w->queued = 0;
    w->there = w->runs = false;
    w->dead_by_ms = INT64_MAX;
    w->work_ended_ms = 0;
    w->is_granted_here = false;
    /* A mover survives its agent, or dies with it and leaves anything. */
    if (w->moves)
        world_interrupt_move(w);
    w->moves = false;
}

/* ---- actions ---- */

static void enqueue(struct world *w, const struct attempt_event *event)
{
    world_check(w, w->queued < WORLD_QUEUE_MAX, "too many events at once");
    w->queue[w->queued++] = *event;
}

/* Compares with what control was told before: nothing may be undone. */
static void hear_report(struct world *w)
{
    const struct attempt_report *now = &w->life.kept.report, *before = &w->control.told;
    struct attempt_life initial;
    attempt_life_init(&initial, 1, 1, &w->traits);
    world_check(
        w, memcmp(now, w->has_state ? &w->saved.report : &initial.kept.report, sizeof *now) == 0,
        "control was told what is not durable");
    if (w->control.was_told) {
        world_check(w, now->phase >= before->phase, "a phase was undone");
        world_check(w, now->turn >= before->turn, "an order was forgotten");
        world_check(w, now->advice >= before->advice, "advice was forgotten");
        world_check(w, now->cleared || !before->cleared, "a probation was begun again");
        if (before->phase == ATTEMPT_EXITED)
            world_check(w,
                        now->verdict == before->verdict && now->failure == before->failure &&
                            now->exit_code == before->exit_code &&
                            str_equal(now->text, before->text),
                        "an end was changed");
    }
    if (now->phase < ATTEMPT_EXITED && !w->life.gone)
        world_check(w, now->advice == w->life.kept.advice.sequence, "another advice is reported");
    if (now->phase == ATTEMPT_EXITED) {
        bool is_late = w->ended_late && now->failure == FAILURE_TIMEOUT &&
                       w->life.kept.verdict != VERDICT_GUILTY;
        world_check(w, w->has_state && w->saved.report.phase == ATTEMPT_EXITED,
                    "control heard of an end that is not durable");
        world_check(w, !w->supervisor.alive && !w->supervisor.tasks_alive,
                    "an end of a living attempt");
        world_check(w, now->verdict == (is_late ? VERDICT_OWN : w->life.kept.verdict),
                    "the end has another verdict");
    }
    w->control.told = *now;
    w->control.was_told = true;
}

static void spawn(struct world *w)
{
    struct supervisor *s = &w->supervisor;
    world_check(w, !s->was_started, "a second supervisor");
    world_check(w, !w->life.traits.uses_mps || w->traits.uses_mps, "a client of MPS by itself");
    world_check(w, w->control.granted && w->has_grant, "a supervisor without a grant");
    if (world_chance(w, 30)) { /* the start fails */
        const struct attempt_event gone = {.kind = ATTEMPT_GONE,
                                           .exit = {.granted_here = true, .text = "no fork"}};
        enqueue(w, &gone);
        return;
    }
    *s = (struct supervisor){.was_started = true,
                             .alive = true,
                             .tasks_alive = true,
                             .heard_ms = INT64_MAX,
                             .end_ms = INT64_MAX,
                             .character = world_chance(w, 2)
                                              ? HONEST
                                              : (enum character)rng_below(&w->rng, CHARACTER_END)};
}

static void give_up(struct world *w)
{
    const struct attempt_event gone = {.kind = ATTEMPT_GONE, .exit = {.granted_here = true}};
    world_check(w, !w->supervisor.was_started, "a start was given up that had happened");
    enqueue(w, &gone);
}

static void note_deadline(struct world *w, int64_t grace_ms)
{
    int64_t dead_by_ms = w->now_ms + grace_ms + END_MS_MAX;
    if (dead_by_ms < w->dead_by_ms)
        w->dead_by_ms = dead_by_ms;
}

void world_limit(struct world *w)
{
    int64_t limit_at_ms = w->life.kept.limit_at_ms;
    int64_t left_ms = limit_at_ms + w->traits.grace_ms + ATTEMPT_LATE_MS - w->now_ms;
    if (limit_at_ms && !w->life.gone && !attempt_has_ended(&w->life))
        note_deadline(w, (left_ms > 0 ? left_ms : 0) + ATTEMPT_END_WORK_MS + ATTEMPT_JOIN_MS_MAX);
}

static void ask(struct world *w, int64_t grace_ms)
{
    struct supervisor *s = &w->supervisor;
    world_check(w, grace_ms >= 0, "a negative grace");
    world_check(w,
                w->life.kept.verdict == VERDICT_OWN ||
                    (w->has_state && w->saved.verdict == w->life.kept.verdict),
                "the supervisor is told before the verdict is durable");
    note_deadline(w, grace_ms);
    if (!s->alive || s->character == DEAF || s->character == FROZEN)
        return;
    s->heard_ms = w->now_ms + world_up_to(w, SUPERVISOR_MS);
    if (s->character == HONEST)
        s->end_ms = w->now_ms + grace_ms + world_up_to(w, SUPERVISOR_MS);
}

static void end_work(struct world *w)
{
    world_check(w, w->life.traits.uses_mps, "work was ended outside of MPS");
    world_check(w, !w->others_join || w->now_ms >= w->life.stop.join_until_ms,
                "work was ended while a neighbour joins");
    w->work_ended_ms = w->now_ms;
}

static void kill_by_supervisor(struct world *w)
{
    struct supervisor *s = &w->supervisor;
    world_check(w,
                !w->life.traits.uses_mps ||
                    (w->work_ended_ms > 0 && w->now_ms >= w->work_ended_ms + ATTEMPT_END_WORK_MS),
                "a client of MPS is killed with work outstanding");
    if (!s->alive || s->character == DEAF || s->character == FROZEN)
        return;
    s->heard_ms = w->now_ms + world_up_to(w, SUPERVISOR_MS);
    if (s->character == HONEST)
        s->end_ms = w->now_ms + world_up_to(w, SUPERVISOR_MS);
}

static void signal_supervisor(struct world *w)
{
    struct supervisor *s = &w->supervisor;
    world_check(w, attempt_is_stopping(&w->life), "a supervisor is signalled that need not end");
    if (s->alive && (s->character == DEAF || s->character == HONEST))
        s->end_ms = w->now_ms + world_up_to(w, SUPERVISOR_MS);
}

static void force(struct world *w, bool again)
{
    struct supervisor *s = &w->supervisor;
    world_check(w, attempt_is_stopping(&w->life) && w->now_ms >= w->life.stop.end_by_ms,
                "an attempt is killed before its deadline");
    s->tasks_alive = false;
    if (again)
        s->alive = false;
    else if (s->alive && s->character != FROZEN && s->end_ms == INT64_MAX)
        s->end_ms = w->now_ms + world_up_to(w, SUPERVISOR_MS);
}

static void tell_device(struct world *w, const struct attempt_action *action)
{
    switch (action->kind) {
    case ATTEMPT_ACT_COME:
        world_check(w, w->traits.has_devices && !w->there, "it came twice");
        w->there = true;
        w->device_verdict = VERDICT_OWN;
        break;
    case ATTEMPT_ACT_RUN:
        world_check(w, w->there && !w->runs, "it runs where it is not, or twice");
        w->runs = true;
        break;
    case ATTEMPT_ACT_CHANGE:
        world_check(w, w->there && !w->supervisor.was_started, "it leaves MPS after its start");
        break;
    case ATTEMPT_ACT_STAY:
        world_check(w, w->there && action->text[0],
                    "it stays where it is not, or without a reason");
        break;
    default:
        world_check(w, w->there, "it left twice");
        w->there = w->runs = false;
        w->device_verdict = VERDICT_OWN;
        w->device_asks = false;
    }
}

static void start_move(struct world *w, bool off)
{
    const struct attempt_event refused = {
        .kind = ATTEMPT_MOVED, .moved = MOVED_REFUSED, .text = "no room"};
    world_check(w, !w->moves, "two moves at a time");
    world_check(w, !off || !w->life.traits.uses_mps, "a client of MPS is moved");
    world_check(w, w->supervisor.was_started, "memory is moved that never was");
    if (!w->calm && world_chance(w, 8)) {
        w->failed_moves++;
        enqueue(w, &refused);
        return;
    }
    w->moves = true;
    w->moves_off = off;
    w->move_end_ms = w->now_ms + world_up_to(w, MOVE_MS_MAX);
}

static void bury(struct world *w)
{
    if (w->supervisor.has_exit)
        return;
    w->supervisor.has_exit = true;
    w->supervisor.exit = w->life.kept.report;
}

static void save(struct world *w)
{
    world_check(w,
                !w->has_state || w->saved.report.phase != ATTEMPT_EXITED ||
                    w->life.kept.report.phase == ATTEMPT_EXITED,
                "a durable end was undone");
    if (w->life.kept.report.phase == ATTEMPT_EXITED && w->saved.report.phase != ATTEMPT_EXITED)
        w->ended_late =
            w->life.kept.limit_at_ms && w->now_ms >= w->life.kept.limit_at_ms - ATTEMPT_LATE_MS;
    w->saved = w->life.kept;
    w->has_state = true;
}

static void end_resources(struct world *w)
{
    world_check(w, w->life.kept.report.phase == ATTEMPT_EXITED && !w->there,
                "it ended before its end");
    w->dead_by_ms = INT64_MAX;
    w->moves = false;
}

void world_carry_out(struct world *w, const struct attempt_action *action)
{
    switch (action->kind) {
    case ATTEMPT_ACT_SAVE:
        save(w);
        break;
    case ATTEMPT_ACT_REPORT:
        hear_report(w);
        break;
    case ATTEMPT_ACT_SPAWN:
        spawn(w);
        break;
    case ATTEMPT_ACT_GIVE_UP:
        give_up(w);
        break;
    case ATTEMPT_ACT_ASK:
        ask(w, action->grace_ms);
        break;
    case ATTEMPT_ACT_END_WORK:
        end_work(w);
        break;
    case ATTEMPT_ACT_KILL:
        kill_by_supervisor(w);
        break;
    case ATTEMPT_ACT_SIGNAL:
        signal_supervisor(w);
        break;
    case ATTEMPT_ACT_FORCE:
        force(w, action->again);
        break;
    case ATTEMPT_ACT_ADVISE:
        world_check(w, w->has_state && w->saved.advice.sequence == w->life.kept.advice.sequence,
                    "advice is given that is not durable");
        w->advice_passed_on = w->life.kept.advice.sequence;
        break;
    case ATTEMPT_ACT_MOVE_OFF:
    case ATTEMPT_ACT_MOVE_ON:
        start_move(w, action->kind == ATTEMPT_ACT_MOVE_OFF);
        break;
    case ATTEMPT_ACT_BURY:
        bury(w);
        break;
    case ATTEMPT_ACT_END:
        end_resources(w);
        break;
    case ATTEMPT_ACT_PUT_AWAY:
        world_check(w, w->control.settled, "it was put away before control stored its end");
        w->done = true;
        break;
    default:
        tell_device(w, action);
    }
}
