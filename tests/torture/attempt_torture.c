/*
 * Attempts under random events, with crashes of the agent between any two actions:
 *
 *   attempt_torture [--seed N] [--events N]
 *
 * Each seed is one attempt from grant to settlement. Seeds follow each other until the wanted
 * number of events is reached; GPUMUX_SEED is added to the first. A failure prints the seed and the
 * command that repeats the run. Only the saved state of the agent outlives a crash.
 *
 * Invariants: one supervisor at most; a verdict is durable before the supervisor is asked; no
 * report to control undoes a phase, an order or an end; memory that may be on the device keeps its
 * place there, unless a move failed; one move at a time; the agent kills MPS clients only after
 * their work, and not while a neighbour joins, within a bound; a stopped attempt, or one past its
 * time limit, ends in time, whatever its supervisor does; the end has the gravest verdict; a tick
 * is never due again at once; equal seeds give equal actions.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attempt_world.h"
#include "base/hash.h"
#include "base/str.h"

enum {
    STORM_EVENTS = 120, /* events before the calm that must end the attempt */
    CALM_EVENTS = 4000, /* bound of the calm */
    LATE_MS = 50,       /* largest delay of a tick */
};

static enum attempt_verdict any_verdict(struct world *w)
{
    return (enum attempt_verdict)rng_below(&w->rng, VERDICT_END);
}

/* ---- one step ---- */

static void check_place(const struct world *w)
{
    bool is_there = attempt_is_on_devices(&w->life);
    world_check(w, is_there == w->there, "the device and the attempt differ");
    world_check(w, !is_there || w->life.kept.report.suspension != SUSPENSION_DONE,
                "a suspended attempt keeps its place");
    if (!w->supervisor.was_started || !w->traits.has_devices || w->life.gone ||
        attempt_has_ended(&w->life))
        return;
    world_check(w, is_there || w->memory == MEMORY_OFF || w->failed_moves > 0,
                "memory on the device has lost its place");
    world_check(w,
                is_there || w->memory == MEMORY_OFF || w->moves || w->queued > 0 ||
                    attempt_next_ms(&w->life) < INT64_MAX,
                "memory stays on a device that the attempt has left");
}

static void step(struct world *w, struct attempt_event event)
{
    struct attempt_view view = {.now_ms = w->now_ms,
                                .now_wall_ms = 1000000 + w->now_ms,
                                .linked = w->linked,
                                .others_join = w->others_join,
                                .device_asks = w->there && w->device_asks,
                                .mps_is_well = w->mps_is_well,
                                .verdict = w->there ? w->device_verdict : VERDICT_OWN};
    str_copy(view.verdict_why, sizeof view.verdict_why, view.verdict ? "its device" : "");
    str_copy(view.refusal, sizeof view.refusal, w->refuses ? "the device is full" : "");
    enum attempt_verdict before = w->life.kept.verdict;
    w->events++;
    w->event_counts[event.kind]++;
    attempt_step(&w->life, &event, &view, &w->actions);
    world_limit(w);
    world_check(w, w->life.kept.verdict >= before || event.kind == ATTEMPT_ACQUIT,
                "a verdict was reduced by itself");
    for (size_t i = 0; i < w->actions.count; i++) {
        const struct attempt_action *action = &w->actions.items[i];
        if (!w->calm && world_chance(w, 200)) {
            world_crash(w);
            return;
        }
        w->action_counts[action->kind]++;
        w->digest = w->digest * 31 + (uint64_t)action->kind * 7 + (uint64_t)action->grace_ms +
                    hash_string(action->text);
        world_carry_out(w, action);
    }
    if (w->done)
        return;
    world_check(w,
                event.kind != ATTEMPT_GONE || !attempt_has_ended(&w->life) ||
                    w->life.kept.verdict >= event.exit.verdict,
                "the end lacks the node's verdict");
    check_place(w);
    int64_t next_ms = attempt_next_ms(&w->life);
    world_check(w, event.kind != ATTEMPT_TICK || next_ms > w->now_ms,
                "a tick is due again at once");
}

static void tell(struct world *w, struct attempt_event event)
{
    step(w, event);
    while (w->up && w->queued > 0) {
        struct attempt_event next = w->queue[0];
        memmove(w->queue, w->queue + 1, --w->queued * sizeof *w->queue);
        step(w, next);
    }
}

static void tell_kind(struct world *w, enum attempt_event_kind kind)
{
    tell(w, (struct attempt_event){.kind = kind});
}

/* ---- an agent starts, or starts again ---- */

static void tell_gone(struct world *w)
{
    const struct supervisor *s = &w->supervisor;
    struct attempt_event gone = {.kind = ATTEMPT_GONE,
                                 .exit = {.told = s->has_exit,
                                          .report = s->exit,
                                          .recorded = s->recorded,
                                          .other_boot = s->recorded && world_chance(w, 5),
                                          .granted_here = w->is_granted_here}};
    if (world_chance(w, 4))
        str_copy(gone.exit.refused, sizeof gone.exit.refused, "2 allocations were refused");
    tell(w, gone);
}

static void grant(struct world *w)
{
    const struct attempt_event start = {.kind = ATTEMPT_START,
                                        .ready = !w->traits.uses_mps || world_chance(w, 2)};
    w->control.granted = w->has_grant = w->is_granted_here = true;
    attempt_life_init(&w->life, 1, 1, &w->traits);
    if (!w->calm && world_chance(w, 20)) { /* the node refuses */
        const struct attempt_event refused = {
            .kind = ATTEMPT_GONE,
            .exit = {.verdict = VERDICT_MOVED, .why = "the device is full", .text = "refused"}};
        tell(w, refused);
        return;
    }
    tell(w, start);
}

/* The device of a new agent repeats a stop whose verdict was saved. */
static void stop_again(struct world *w)
{
    int64_t left_ms = w->saved.end_by_ms - w->now_ms;
    struct attempt_event stop = {
        .kind = ATTEMPT_STOP,
        .stop = {.reason = STOP_REASON_DEVICE,
                 .verdict = w->saved.verdict,
                 .grace_ms = left_ms < ATTEMPT_LEAST_GRACE_MS ? ATTEMPT_LEAST_GRACE_MS : left_ms}};
    str_copy(stop.stop.why, sizeof stop.stop.why, w->saved.why);
    if (w->there && w->has_state && w->saved.end_by_ms != INT64_MAX)
        tell(w, stop);
}

static void start_agent(struct world *w)
{
    const struct supervisor *s = &w->supervisor;
    w->up = true;
    if (!w->has_grant)
        return;
    if (!s->was_started && !s->has_exit &&
        !(w->has_state && w->saved.report.phase == ATTEMPT_EXITED)) {
        /* It never was: control repeats its grant and its orders. */
        world_check(w, !w->control.was_told || w->control.told.phase == ATTEMPT_ACCEPTED,
                    "an attempt that ran never was");
        w->has_grant = w->has_state = w->control.was_told = false;
        return;
    }
    attempt_life_init(&w->life, 1, 1, &w->traits);
    if (w->has_state)
        w->life.kept = w->saved;
    w->life.traits.uses_mps = w->traits.uses_mps && !w->life.kept.without_mps;
    if (attempt_has_ended(&w->life)) {
        tell_kind(w, ATTEMPT_ADOPT);
    } else if (s->alive) {
        tell_kind(w, ATTEMPT_ADOPT);
        if (w->up)
            stop_again(w);
    } else {
        w->supervisor.tasks_alive = false; /* the agent kills leftovers first */
        if (world_chance(w, 2))
            tell_kind(w, ATTEMPT_ADOPT);
        if (w->up)
            tell_gone(w);
    }
}

static bool has_run(const struct world *w)
{
    return w->up && w->has_grant && !w->done && w->life.kept.report.workload == 1;
}

/* ---- the world ---- */

static void end_task(struct world *w)
{
    static const enum failure_reason failures[] = {FAILURE_NONE, FAILURE_EXIT, FAILURE_SIGNAL,
                                                   FAILURE_TIMEOUT};
    struct supervisor *s = &w->supervisor;
    s->alive = s->tasks_alive = false;
    if (!s->recorded || world_chance(w, 10)) /* killed */
        return;
    enum failure_reason failure = failures[rng_below(&w->rng, 4)];
    s->has_exit = true;
    s->exit = (struct attempt_report){.workload = 1,
                                      .attempt = 1,
                                      .phase = ATTEMPT_EXITED,
                                      .started_wall_ms = 1,
                                      .ended_wall_ms = 2,
                                      .failure = failure,
                                      .exit_code = failure == FAILURE_EXIT ? 3 : 0,
                                      .signal = failure == FAILURE_SIGNAL ? 11 : 0};
}

static void supervise(struct world *w)
{
    struct supervisor *s = &w->supervisor;
    bool heard = s->alive && w->now_ms >= s->heard_ms;
    if (s->alive && w->now_ms >= s->end_ms)
        end_task(w);
    if (heard)
        s->heard_ms = INT64_MAX;
    if (heard && has_run(w))
        tell_kind(w, ATTEMPT_HEARD);
    if (has_run(w) && s->was_started && !s->alive && !w->life.gone &&
        !attempt_has_ended(&w->life)) {
        s->tasks_alive = false;
        tell_gone(w);
    }
}

static void end_move(struct world *w)
{
    struct attempt_event moved = {.kind = ATTEMPT_MOVED};
    uint64_t luck = w->calm ? 9 : rng_below(&w->rng, 10);
    if (!w->moves || w->now_ms < w->move_end_ms)
        return;
    w->moves = false;
    if (!w->supervisor.alive)
        luck = 0;
    moved.moved = luck < 2 ? MOVED_FAILED : luck < 4 ? MOVED_LOST : MOVED_DONE;
    str_copy(moved.text, sizeof moved.text, luck < 4 ? "it failed" : "1 GiB in 1 s");
    if (moved.moved == MOVED_DONE)
        w->memory = w->moves_off ? MEMORY_OFF : MEMORY_ON;
    else if (moved.moved == MOVED_LOST)
        world_interrupt_move(w);
    w->failed_moves = moved.moved == MOVED_DONE ? 0 : w->failed_moves + 1;
    if (has_run(w))
        tell(w, moved);
}

/* Time passes, at most to the next tick, which may be late. */
static void time_passes(struct world *w)
{
    int64_t next_ms = w->now_ms + 1 + world_up_to(w, world_chance(w, 4) ? 4000 : 200);
    if (has_run(w)) {
        int64_t due_ms = attempt_next_ms(&w->life);
        if (due_ms < next_ms)
            next_ms = (due_ms > w->now_ms ? due_ms : w->now_ms) + world_up_to(w, LATE_MS);
    }
    w->now_ms = next_ms;
    if (w->asks_until_ms <= w->now_ms)
        w->device_asks = false;
    supervise(w);
    end_move(w);
    if (has_run(w) && attempt_next_ms(&w->life) <= w->now_ms)
        tell_kind(w, ATTEMPT_TICK);
    bool lives = w->supervisor.alive || w->supervisor.tasks_alive;
    world_check(w, !w->up || !lives || w->now_ms <= w->dead_by_ms, "it outlived its deadline");
    if (w->supervisor.tasks_alive && !w->supervisor.alive && w->up)
        w->supervisor.tasks_alive = false;
}

static void progress(struct world *w)
{
    struct supervisor *s = &w->supervisor;
    if (has_run(w) && attempt_waits_for_mps(&w->life)) {
        tell(w, (struct attempt_event){.kind = ATTEMPT_MPS, .ready = !world_chance(w, 3)});
        return;
    }
    if (!s->alive)
        return;
    if (!s->recorded)
        s->recorded = true;
    else if (!s->ready)
        s->ready = true;
    else if (!w->calm && world_chance(w, 6))
        s->end_ms = w->now_ms;
    if (has_run(w))
        tell(w,
             (struct attempt_event){.kind = ATTEMPT_SEEN, .ready = s->ready, .started_wall_ms = 1});
}

static void order(struct world *w)
{
    struct control *c = &w->control;
    bool stops = c->granted && (w->calm || world_chance(w, 12));
    c->stops = c->stops || stops;
    if (c->stops) {
        int64_t grace_ms = world_chance(w, 8) ? -1 : world_up_to(w, 8000);
        tell(w,
             (struct attempt_event){.kind = ATTEMPT_STOP,
                                    .stop = {.reason = STOP_REASON_CONTROL, .grace_ms = grace_ms}});
        return;
    }
    if (world_chance(w, 3)) {
        c->advice += world_chance(w, 2);
        const struct advice advice = {.sequence = c->advice, .batch = c->advice};
        if (c->advice > 0)
            tell(w, (struct attempt_event){.kind = ATTEMPT_ADVISE, .advice = advice});
        return;
    }
    if (world_chance(w, 2)) {
        c->turn++;
        c->wants_off = !c->wants_off;
    }
    if (c->turn > 0)
        tell(w, (struct attempt_event){.kind = c->wants_off ? ATTEMPT_SUSPEND : ATTEMPT_RESUME,
                                       .turn = c->turn});
}

static void device_acts(struct world *w)
{
    struct attempt_event event = {.stop = {.reason = STOP_REASON_DEVICE,
                                           .verdict = any_verdict(w),
                                           .grace_ms = world_up_to(w, 8000),
                                           .why = "the device"},
                                  .text = "the device is full"};
    if (!w->there)
        return;
    switch (rng_below(&w->rng, 8)) {
    case 0:
        event.kind = ATTEMPT_STOP;
        break;
    case 1:
        event.kind = ATTEMPT_ACQUIT;
        event.stop.verdict =
            w->life.kept.verdict > VERDICT_MOVED ? VERDICT_MOVED : w->life.kept.verdict;
        if (attempt_has_ended(&w->life) || event.stop.verdict == VERDICT_OWN)
            return;
        break;
    case 2:
        event.kind = ATTEMPT_CLEARED;
        break;
    case 3:
        w->device_verdict = any_verdict(w);
        return;
    case 4:
        w->device_asks = true;
        w->asks_until_ms = w->now_ms + world_up_to(w, 5000);
        return;
    default:
        event.kind = ATTEMPT_EVICT;
    }
    tell(w, event);
}

static void node_stops(struct world *w)
{
    static const enum attempt_stop_reason reasons[] = {STOP_REASON_SUPERVISOR, STOP_REASON_LOST};
    enum attempt_stop_reason reason = reasons[rng_below(&w->rng, 2)];
    tell(w, (struct attempt_event){
                .kind = ATTEMPT_STOP,
                .stop = {.reason = reason,
                         .verdict = reason == STOP_REASON_LOST ? VERDICT_MOVED : VERDICT_OWN,
                         .grace_ms = world_up_to(w, 3000),
                         .why = "it is gone"}});
}

static void settle(struct world *w)
{
    w->control.settled =
        w->control.settled || (w->control.was_told && w->control.told.phase == ATTEMPT_EXITED);
    if (w->control.settled && attempt_has_ended(&w->life))
        tell_kind(w, ATTEMPT_SETTLE);
}

static void surroundings_change(struct world *w)
{
    w->others_join = world_chance(w, 3);
    w->mps_is_well = !world_chance(w, 3);
    w->linked = !world_chance(w, 3);
    w->refuses = world_chance(w, 4);
}

static void happen(struct world *w)
{
    if (!w->up) {
        w->now_ms += world_up_to(w, 3000);
        start_agent(w);
        return;
    }
    if (!w->has_grant) {
        if (!w->control.settled)
            grant(w);
        return;
    }
    switch (rng_below(&w->rng, 16)) {
    case 0:
        order(w);
        break;
    case 1:
        device_acts(w);
        break;
    case 2:
    case 3:
        progress(w);
        break;
    case 4:
        if (!w->calm && world_chance(w, 6))
            node_stops(w);
        break;
    case 5:
        surroundings_change(w);
        break;
    case 6:
        settle(w);
        break;
    case 7:
        if (!w->calm && world_chance(w, 4))
            world_crash(w);
        break;
    default:
        time_passes(w);
    }
}

static uint64_t run(uint64_t seed, size_t *event_counts, size_t *action_counts, uint64_t *events)
{
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        exit(1);
    w->seed = seed;
    w->event_counts = event_counts;
    w->action_counts = action_counts;
    rng_seed(&w->rng, seed);
    w->now_ms = 1000;
    w->dead_by_ms = w->supervisor.heard_ms = w->supervisor.end_ms = INT64_MAX;
    w->linked = w->mps_is_well = true;
    w->traits.kind = world_chance(w, 3) ? WORKLOAD_SERVICE : WORKLOAD_TASK;
    w->traits.has_devices = !world_chance(w, 6);
    w->traits.uses_mps = w->traits.has_devices && world_chance(w, 2);
    w->traits.grace_ms = world_up_to(w, 8000);
    w->traits.time_limit_ms = world_chance(w, 3) ? 1 + world_up_to(w, 20000) : 0;
    for (int i = 0; i < STORM_EVENTS && !w->done; i++)
        happen(w);
    w->calm = true;
    for (int i = 0; i < CALM_EVENTS && !w->done; i++)
        happen(w);
    world_check(w, w->done, "it never ends");
    *events += w->events;
    uint64_t digest = w->digest;
    free(w);
    return digest;
}

static int check_counts(const size_t *counts, size_t end, const char *what)
{
    for (size_t i = 0; i < end; i++)
        if (counts[i] == 0) {
            fprintf(stderr, "no seed ever had %s %zu\n", what, i);
            return 1;
        }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, wanted = 100000, events = 0, again = 0, count = 0;
    size_t event_counts[ATTEMPT_EVENT_END] = {0}, action_counts[ATTEMPT_ACTION_END] = {0};
    const char *offset = getenv("GPUMUX_SEED");
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *option = str_equal(argv[i], "--seed")     ? &seed
                           : str_equal(argv[i], "--events") ? &wanted
                                                            : NULL;
        if (!option) {
            fprintf(stderr, "usage: attempt_torture [--seed N] [--events N]\n");
            return 2;
        }
        *option = strtoull(argv[i + 1], NULL, 10);
    }
    seed += offset ? strtoull(offset, NULL, 10) : 0;
    for (; events < wanted; seed++, count++) {
        uint64_t digest = run(seed, event_counts, action_counts, &events);
        if (seed % 50 == 0 && run(seed, event_counts, action_counts, &again) != digest) {
            fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", seed);
            return 1;
        }
    }
    printf("%" PRIu64 " attempts, %" PRIu64 " events\n", count, events);
    if (wanted < 10000)
        return 0; /* too few for every kind */
    return check_counts(event_counts, ATTEMPT_EVENT_END, "event") ||
           check_counts(action_counts, ATTEMPT_ACTION_END, "action");
}
