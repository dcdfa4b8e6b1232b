/*
 * Collectives, and graphs that may contain one, in a task's process beside a busy service: work
 * that another rank may wait for is hardly delayed. Times as in launch_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/shim/launch_fixture.h"

/* Launches collectives, of which the last is still outstanding at the end; then launches ordinary
 * kernels. */
static void launch_collectives(const struct talker *task, const char *kernels)
{
    char grid[32];
    snprintf(grid, sizeof(grid), "grid %d", 40 * COLLECTIVE_GRID);
    assert_int_equal(ask(task, "kernel ncclDevKernel_AllReduce"), 0);
    assert_int_equal(ask(task, grid), 0);
    assert_true(ask(task, kernels) < FOREVER_US);
    assert_int_equal(ask(task, "kernel gpumux_burn"), 0);
    assert_int_equal(ask(task, "grid 1"), 0);
}

/* Two ranks of a task would deadlock if the shim delayed the collective that the other waits
 * for. */
static void collectives_are_never_held(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "50000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 1") >= 0);
    assert_true(ask(&service, "kernels 10000000 8") >= 0);
    launch_collectives(&task, "kernels 0 3");
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 0);
    assert_int_equal(number_of(&registrar, "task", "launches_collective"), 3);
    /* While a collective is outstanding, other launches pass after 2 ms. */
    int host_us = ask(&task, "kernels 1000 1");
    assert_true(host_us >= 2 * MS_US && host_us < FOREVER_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    end_by_kill(&service);
    end_by_kill(&task);
    finish(&registrar, "quit");
}

/* Captures a task's graph: a collective, and a kernel of the given length. */
static void capture_collective(const struct talker *task, const char *kernel)
{
    assert_int_equal(ask(task, "stream 1"), 0);
    assert_int_equal(ask(task, "begin"), 0);
    assert_int_equal(ask(task, "kernel ncclDevKernel_AllReduce"), 0);
    assert_true(ask(task, "kernels 0 1") >= 0);
    assert_int_equal(ask(task, "kernel gpumux_burn"), 0);
    assert_true(ask(task, kernel) >= 0);
    assert_int_equal(ask(task, "end-capture"), 2);
}

/* Graphs pass after 2 ms once a collective was captured, since any graph may contain it. A graph of
 * a process without collectives waits. */
static void graphs_with_collectives_pass_gate(void **state)
{
    struct talker registrar, service, task, plain;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "50000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    start_launcher(&plain, "plain");
    capture_collective(&task, "kernels 1000 1");
    assert_int_equal(ask(&plain, "stream 1"), 0);
    assert_int_equal(ask(&plain, "capture 1000 2"), 2);
    PARTY_WAIT(ask(&task, "kernels 1 1") >= 0 && number_of(&registrar, "task", "neighbours") == 1);
    PARTY_WAIT(ask(&plain, "kernels 1 1") >= 0 &&
               number_of(&registrar, "plain", "neighbours") == 1);
    assert_true(ask(&service, "kernels 10000000 8") >= 0);
    tell(&plain, "graphs 1");
    PARTY_WAIT(number_of(&registrar, "plain", "launches_graph") == 1);
    int host_us = ask(&task, "graphs 1");
    assert_true(host_us >= 2 * MS_US && host_us < FOREVER_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "launches_collective"), 1);
    /* The other process waits for as long as the service is busy. */
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    end_by_kill(&service);
    assert_true(hear(&plain) >= 0);
    assert_int_equal(number_of(&registrar, "plain", "holds_gate"), 1);
    assert_int_equal(number_of(&registrar, "plain", "passes_gate"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&plain, "end"), 0);
    finish(&registrar, "quit");
}

/* The rate alone would delay each by 2 s. */
static void rate_limit_passes_graphs_with_collectives(void **state)
{
    enum { LAUNCHES = 10 };
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "1000000", "--rate-permille", "0");
    start_launcher(&task, "task");
    capture_collective(&task, "kernels 10000 1");
    learn_cost_of("graphs 1", &registrar, &task);
    tell(&registrar, "rate-permille 1");
    assert_int_equal(number_of(&registrar, "task", "held_rate_ns"), 0);
    for (int i = 0; i < LAUNCHES; i++) {
        assert_true(ask(&task, "graphs 1") >= 0);
        /* No collective is outstanding for which the next would pass. */
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    /* The first may come in the burst that a rate allows. */
    assert_in_range(number_of(&registrar, "task", "held_rate_ns"),
                    (LAUNCHES - 1) * 2 * MS_US * UINT64_C(1000),
                    (LAUNCHES - 1) * 1000 * MS_US * UINT64_C(1000));
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void configured_patterns_mark_collectives(void **state)
{
    struct talker registrar, named, other;
    (void)state;
    start_registrar(&registrar, "--window-us", "50000", "--rate-permille", "0");
    setenv("GPUMUX_COLLECTIVES", "all_reduce,gpumux_b*n", 1);
    start_launcher(&named, "named");
    setenv("GPUMUX_COLLECTIVES", "all_reduce,gpumux_b", 1);
    start_launcher(&other, "other");
    unsetenv("GPUMUX_COLLECTIVES");
    assert_true(ask(&named, "kernels 1000 3") >= 0);
    assert_true(ask(&other, "kernels 1000 3") >= 0);
    assert_int_equal(number_of(&registrar, "named", "launches_collective"), 3);
    assert_int_equal(number_of(&registrar, "other", "launches_collective"), 0);
    assert_int_equal(finish(&named, "end"), 0);
    assert_int_equal(finish(&other, "end"), 0);
    finish(&registrar, "quit");
}

/* All delays of a launch together are no longer than the bound for one: the rate takes the 2 ms,
 * and leaves no time for others. */
static void hold_reasons_share_collectives_bound(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "50000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 1") >= 0);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_true(ask(&service, "kernels 10000000 8") >= 0);
    launch_collectives(&task, "kernels 0 1");
    tell(&registrar, "rate-permille 1");
    assert_int_equal(number_of(&registrar, "task", "held_gate_ns"), 0);
    assert_true(ask(&task, "kernels 1000 3") <
                FOREVER_US); /* each is half of the window, or more */
    assert_true(number_of(&registrar, "task", "held_rate_ns") >= UINT64_C(3) * 2 * MS_US * 1000);
    assert_true(number_of(&registrar, "task", "passes_window") > 0);
    assert_int_equal(number_of(&registrar, "task", "held_window_ns"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 3);
    assert_int_equal(number_of(&registrar, "task", "held_gate_ns"), 0);
    end_by_kill(&service);
    end_by_kill(&task);
    finish(&registrar, "quit");
}

int main(int argc, char **argv)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_devices, tear_down_devices)
    const struct CMUnitTest tests[] = {
        TEST(collectives_are_never_held),
        TEST(graphs_with_collectives_pass_gate),
        TEST(rate_limit_passes_graphs_with_collectives),
        TEST(configured_patterns_mark_collectives),
        TEST(hold_reasons_share_collectives_bound),
    };
    if (!launch_fixture_begin(argc, argv))
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    launch_fixture_end();
    return failed;
}
