#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "device/room.h"

#define GIB (UINT64_C(1) << 30)

enum { LOOK_MS = 20, AWAY_MS_MAX = 600000 };

/* Tasks that do what they are told, on one device. */
struct world {
    struct room room;
    struct room_look look;
    struct room_task_look tasks[ROOM_TASKS_MAX];
    struct room_actions actions;
    int orders, answers, evictions, notes;
};

static void add_task(struct world *w, uint64_t bytes, bool can_move, bool can_leave)
{
    size_t i = w->look.task_count++;
    w->tasks[i] = (struct room_task_look){.workload = i + 1,
                                          .attempt = 1,
                                          .held_bytes = bytes,
                                          .movable_bytes = can_move ? bytes : 0,
                                          .can_move = can_move,
                                          .can_leave = can_leave};
}

static void init(struct world *w)
{
    *w = (struct world){
        .look = {.now_ms = 1000, .host_bytes = 100 * GIB, .away_ms_max = AWAY_MS_MAX}};
    w->look.tasks = w->tasks;
}

/* Steps once, with a fresh sample. Tasks follow their orders if `is_obeyed`. */
static void step(struct world *w, bool is_obeyed)
{
    w->look.now_ms += LOOK_MS;
    w->look.free_at_ms = w->look.now_ms;
    room_step(&w->room, &w->look, &w->actions);
    for (size_t i = 0; i < w->actions.count; i++) {
        const struct room_action *a = &w->actions.items[i];
        struct room_task_look *t = &w->tasks[a->workload ? a->workload - 1 : 0];
        w->orders += a->kind == ROOM_ORDER;
        w->answers += a->kind == ROOM_ANSWER;
        w->evictions += a->kind == ROOM_EVICT;
        w->notes += a->kind == ROOM_NOTE;
        if (a->kind != ROOM_ORDER || !is_obeyed)
            continue;
        w->look.free_bytes += a->bytes > t->away_bytes ? a->bytes - t->away_bytes : 0;
        w->look.free_bytes -= a->bytes == 0 ? t->away_bytes : 0;
        t->away_bytes = a->bytes;
    }
}

static void pass(struct world *w, int64_t ms)
{
    for (int64_t i = 0; i < ms; i += LOOK_MS)
        step(w, true);
}

static void lacking_memory_comes_from_largest(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 10 * GIB, true, false);
    add_task(&w, 40 * GIB, true, false);
    step(&w, true);
    assert_int_equal(w.actions.count, 0);
    assert_int_equal(w.actions.room_bytes, 50 * GIB);
    w.look.lacking_bytes = 8 * GIB;
    step(&w, true);
    assert_int_equal(w.tasks[1].away_bytes, 8 * GIB);
    assert_int_equal(w.tasks[0].away_bytes, 0);
    assert_int_equal(w.answers, 0); /* the move is known to be done at the next look */
    step(&w, true);
    assert_int_equal(w.answers, 1);
    /* The service has taken the memory; it lacks more: the task that stands still gives again. */
    w.look.free_bytes = 0;
    w.look.lacking_bytes = 0;
    pass(&w, 200);
    w.look.lacking_bytes = 4 * GIB;
    step(&w, true);
    assert_int_equal(w.tasks[1].away_bytes, 12 * GIB);
    assert_int_equal(w.tasks[0].away_bytes, 0);
}

static void several_tasks_give_together(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 10 * GIB, true, false);
    add_task(&w, 5 * GIB, true, false);
    w.look.lacking_bytes = 12 * GIB;
    step(&w, true);
    assert_int_equal(w.tasks[0].away_bytes, 10 * GIB);
    assert_int_equal(w.tasks[1].away_bytes, 2 * GIB);
}

static void service_waits_while_memory_moves(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    w.look.lacking_bytes = 8 * GIB;
    step(&w, false);
    step(&w, false);
    assert_int_equal(w.orders, 1);
    assert_int_equal(w.answers, 0);
    assert_true(w.actions.room_bytes > 0);
    w.tasks[0].away_bytes = 8 * GIB;
    step(&w, false);
    assert_int_equal(w.answers, 1);
}

static void short_host_memory_refuses(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    w.look.lacking_bytes = 8 * GIB;
    w.look.host_bytes = 7 * GIB;
    step(&w, true);
    assert_int_equal(w.orders, 0);
    assert_int_equal(w.notes, 1);
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.actions.room_bytes, 0);
    pass(&w, 200);
    assert_int_equal(w.notes, 1);
    w.look.host_bytes = 8 * GIB;
    pass(&w, 100);
    assert_int_equal(w.tasks[0].away_bytes, 8 * GIB);
}

static void too_little_to_move_evicts(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 4 * GIB, true, false);
    add_task(&w, 20 * GIB, false, false);
    add_task(&w, 10 * GIB, false, true);
    w.look.lacking_bytes = 8 * GIB;
    step(&w, true);
    assert_int_equal(w.evictions, 1);
    assert_int_equal(w.actions.items[0].workload, 3);
    assert_int_equal(w.answers, 0);
    step(&w, true);
    assert_int_equal(w.evictions, 1); /* it is leaving */
    w.look.task_count = 2;
    step(&w, true);
    assert_int_equal(w.answers, 1); /* nothing else can be freed */
    assert_int_equal(w.actions.room_bytes, 0);
}

/* Makes the only task give 8 GiB, which a service takes. */
static void give_8(struct world *w)
{
    w->look.lacking_bytes = 8 * GIB;
    step(w, true);
    step(w, true);
    assert_int_equal(w->tasks[0].away_bytes, 8 * GIB);
    w->look.lacking_bytes = 0;
    w->look.free_bytes = 0;
    pass(w, 100);
}

/* Frees the memory, and returns the time until the task got it back. */
static int64_t time_of_return(struct world *w)
{
    int64_t begun_ms = w->look.now_ms;
    w->look.free_bytes = 8 * GIB;
    while (w->tasks[0].away_bytes > 0 && w->look.now_ms - begun_ms < AWAY_MS_MAX)
        step(w, true);
    step(w, true);
    return w->look.now_ms - begun_ms;
}

static void memory_returns_after_calm(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    give_8(&w);
    w.look.free_bytes = 8 * GIB - 1;
    pass(&w, 5000);
    assert_int_equal(w.tasks[0].away_bytes, 8 * GIB);
    assert_in_range(time_of_return(&w), ROOM_RETURN_MS, ROOM_RETURN_MS + 100);
}

static void frequent_moves_delay_return(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    give_8(&w);
    assert_in_range(time_of_return(&w), ROOM_RETURN_MS, ROOM_RETURN_MS + 100);
    give_8(&w);
    assert_in_range(time_of_return(&w), 2 * ROOM_RETURN_MS, 2 * ROOM_RETURN_MS + 100);
    for (int i = 0; i < 10; i++) {
        give_8(&w);
        assert_in_range(time_of_return(&w), 4 * ROOM_RETURN_MS, ROOM_RETURN_MS_MAX + 100);
    }
    pass(&w, ROOM_CALM_MS + 100);
    give_8(&w);
    assert_in_range(time_of_return(&w), ROOM_RETURN_MS, ROOM_RETURN_MS + 100);
}

static void failed_move_is_withdrawn(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    w.look.lacking_bytes = 8 * GIB;
    step(&w, false);
    w.tasks[0].failures++;
    step(&w, false);
    assert_int_equal(w.actions.items[0].kind, ROOM_ORDER);
    assert_int_equal(w.actions.items[0].bytes, 0);
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.actions.room_bytes, 0);
    pass(&w, ROOM_AGAIN_MS + 100);
    assert_int_equal(w.tasks[0].away_bytes, 8 * GIB);
}

static void silent_move_is_withdrawn(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    w.look.lacking_bytes = 8 * GIB;
    for (int i = 0; i <= ROOM_MOVE_MS / LOOK_MS + 1; i++)
        step(&w, false);
    assert_int_equal(w.orders, 2);
    assert_int_equal(w.answers, 1);
}

static void long_absence_ends_in_eviction(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    give_8(&w);
    pass(&w, AWAY_MS_MAX + 1000);
    assert_int_equal(w.evictions, 1);
}

static void memory_stays_after_restart_of_agent(void **state)
{
    struct world w;
    (void)state;
    init(&w);
    add_task(&w, 40 * GIB, true, false);
    w.tasks[0].away_bytes = 8 * GIB;
    step(&w, true);
    assert_int_equal(w.actions.items[0].kind, ROOM_ORDER);
    assert_int_equal(w.actions.items[0].bytes, 8 * GIB);
    assert_in_range(time_of_return(&w), ROOM_RETURN_MS, ROOM_RETURN_MS + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lacking_memory_comes_from_largest),
        cmocka_unit_test(several_tasks_give_together),
        cmocka_unit_test(service_waits_while_memory_moves),
        cmocka_unit_test(short_host_memory_refuses),
        cmocka_unit_test(too_little_to_move_evicts),
        cmocka_unit_test(memory_returns_after_calm),
        cmocka_unit_test(frequent_moves_delay_return),
        cmocka_unit_test(failed_move_is_withdrawn),
        cmocka_unit_test(silent_move_is_withdrawn),
        cmocka_unit_test(long_absence_ends_in_eviction),
        cmocka_unit_test(memory_stays_after_restart_of_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
