/*
 * Launches of real processes on an emulated device, with a registrar as their agent: delayed for a
 * busy service, by the window, and by a rate; and launches that must not be delayed or changed.
 * Times are compared with each other, or with the delay that a limit makes certain; only waits of
 * minutes are asserted to be absent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "abi/page.h"
#include "tests/shim/launch_fixture.h"

enum {
    KERNEL_US = 10000,
    WINDOW_US = 40000,
};

/* ---- the window ---- */

/* Measures kernels of KERNEL_US. */
static void learn_cost(const struct talker *registrar, const struct talker *task)
{
    learn_cost_of("kernels 10000 2", registrar, task);
}

static void window_bounds_outstanding_work(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "20000");
    start_launcher(&task, "task");
    learn_cost(&registrar, &task);
    int host_us = ask(&task, "kernels 10000 20");
    assert_true(host_us >= 20 * KERNEL_US - 2 * WINDOW_US);
    assert_true(number_of(&registrar, "task", "outstanding_ns") <=
                (uint64_t)(WINDOW_US + KERNEL_US) * 1000);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_true(number_of(&registrar, "task", "holds_window") > 0);
    assert_true(number_of(&registrar, "task", "held_window_ns") >= 1000);
    assert_true(number_of(&registrar, "task", "gpu_time_kernel_ns") >= 10000000 * UINT64_C(10));
    /* Without a window no launch waits. */
    uint64_t holds = number_of(&registrar, "task", "holds_window");
    tell(&registrar, "window-us 0");
    assert_true(number_of(&registrar, "task", "ended") == 0);
    assert_true(ask(&task, "kernels 10000 20") >= 0);
    assert_int_equal(number_of(&registrar, "task", "holds_window"), holds);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void window_bounds_short_kernels(void **state)
{
    enum { SHORT_US = 500, LAUNCHES = 400 };
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "0");
    start_launcher(&task, "task");
    learn_cost_of("kernels 500 3", &registrar, &task);
    uint64_t time_ns = number_of(&registrar, "task", "gpu_time_kernel_ns");
    assert_true(ask(&task, "kernels 500 400") >= LAUNCHES * SHORT_US - 2 * WINDOW_US);
    assert_true(number_of(&registrar, "task", "outstanding_ns") <= (uint64_t)WINDOW_US * 1000);
    assert_int_equal(ask(&task, "synchronize"), 0);
    time_ns = number_of(&registrar, "task", "gpu_time_kernel_ns") - time_ns;
    assert_in_range(time_ns, LAUNCHES * SHORT_US * 500, LAUNCHES * SHORT_US * 2000);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A launch that is charged a whole window does not wait for work that another thread has already
 * waited for, in a stream that no other thread can mark. */
static void awaited_work_is_not_outstanding(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "200000", "--gate-us", "0");
    start_launcher(&task, "task");
    learn_cost(&registrar, &task);
    assert_int_equal(ask(&task, "rest 10000 5"), 0);
    /* Too little for a mark: the page does not show its end. */
    assert_true(number_of(&registrar, "task", "outstanding_ns") >= 1);
    uint64_t holds = number_of(&registrar, "task", "holds_window");
    assert_int_equal(ask(&task, "grid 2"), 0);
    assert_true(ask(&task, "kernels 1000000 1") >= 0);
    assert_int_equal(number_of(&registrar, "task", "holds_window"), holds);
    /* Later work counts. */
    assert_int_equal(ask(&task, "grid 3"), 0);
    assert_true(ask(&task, "kernels 10000 1") >= 0);
    assert_int_equal(number_of(&registrar, "task", "holds_window"), holds + 1);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void graphs_are_charged_measured_cost(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "20000");
    start_launcher(&task, "task");
    assert_int_equal(ask(&task, "stream 1"), 0);
    assert_int_equal(ask(&task, "capture 5000 4"), 4);
    for (int i = 0; i < 8; i++) {
        assert_true(ask(&task, "graphs 1") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    int host_us = ask(&task, "graphs 10");
    assert_true(host_us >= 10 * 20 * MS_US - 2 * WINDOW_US - 20 * MS_US);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "task", "launches_graph"), 18);
    assert_true(number_of(&registrar, "task", "gpu_time_graph_ns") >= UINT64_C(150000000));
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Returns the number of measured launches, of `sizes` kernels that are launched one at a time. */
static uint64_t measure_sizes(const struct talker *registrar, const struct talker *task, int sizes)
{
    enum { LAUNCHES = 8 };
    uint64_t timed = number_of(registrar, "task", "launches_timed");
    for (int i = 0; i < LAUNCHES * sizes; i++) {
        char grid[32];
        snprintf(grid, sizeof(grid), "grid %d", 1 + i % sizes);
        assert_int_equal(ask(task, grid), 0);
        assert_true(ask(task, "kernels 10 1") >= 0);
        assert_int_equal(ask(task, "synchronize"), 0);
    }
    return number_of(registrar, "task", "launches_timed") - timed;
}

/* A program that unloads modules while it runs keeps the known costs of other kernels. */
static void module_unload_keeps_kernel_costs(void **state)
{
    enum { SIZES = 10 };
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "0");
    start_launcher(&task, "task");
    assert_true(measure_sizes(&registrar, &task, SIZES) >= 3 * SIZES);
    assert_int_equal(ask(&task, "unload"), 0);
    assert_in_range(measure_sizes(&registrar, &task, SIZES), SIZES / 2, 5 * SIZES / 2);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* The shim adds nothing to a graph, a service's or a task's, while both are at work. */
static void captures_are_left_unchanged(void **state)
{
    struct talker registrar, task, service;
    (void)state;
    start_registrar(&registrar, "--window-us", "1000", "--gate-us", "1000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(ask(&task, "stream 1"), 0);
        assert_int_equal(ask(&task, "capture 100 17"), 17);
        assert_int_equal(ask(&service, "stream 1"), 0);
        assert_int_equal(ask(&service, "capture 100 17"), 17);
        assert_true(ask(&service, "graphs 3") >= 0);
        assert_true(ask(&task, "graphs 3") >= 0);
        assert_true(ask(&task, "kernels 100 20") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(number_of(&registrar, "task", "marks_failed"), 0);
    assert_int_equal(number_of(&registrar, "service", "marks_failed"), 0);
    assert_true(number_of(&registrar, "task", "waits_gate") > 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* No capture is open: new kernels are measured. */
static void launch_until_measured(const struct talker *registrar, const struct talker *task)
{
    assert_int_equal(ask(task, "grid 7"), 0);
    uint64_t timed = number_of(registrar, "task", "launches_timed");
    while (number_of(registrar, "task", "launches_timed") < timed + 3) {
        assert_true(ask(task, "kernels 100 1") >= 0);
        assert_int_equal(ask(task, "synchronize"), 0);
    }
    assert_int_equal(number_of(registrar, "task", "marks_failed"), 0);
}

/* A refused capture leaves the open capture open, for the shim as for the driver. */
static void refused_capture_leaves_capture_open(void **state)
{
    enum { ILLEGAL_STATE = 401 };
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "1000", "--gate-us", "0");
    start_launcher(&task, "task");
    assert_int_equal(ask(&task, "stream 1"), 0);
    assert_true(ask(&task, "kernels 100 20") >= 0);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(ask(&task, "begin"), 0);
    assert_true(ask(&task, "kernels 100 10") >= 0);
    assert_int_equal(ask(&task, "begin"), ILLEGAL_STATE);
    assert_true(ask(&task, "kernels 100 100") >= 0);
    assert_int_equal(ask(&task, "end-capture"), 110);
    launch_until_measured(&registrar, &task);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* All threads launch into one stream: the service's marks come out even. */
static void concurrent_launches_leave_no_stream_busy(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "20000", "--gate-us", "1000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    for (int i = 0; i < 3; i++) {
        assert_true(ask(&service, "threads 100 50") >= 0);
        assert_int_equal(ask(&service, "synchronize"), 0);
        assert_true(ask(&task, "threads 100 50") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "service", "launches_kernel"), 600);
    assert_int_equal(number_of(&registrar, "task", "launches_kernel"), 600);
    /* A destroyed stream frees its slot: more streams come than there are slots. */
    for (int i = 0; i < 2 * PAGE_STREAMS_MAX; i++) {
        assert_int_equal(ask(&service, "stream 3"), 0);
        assert_true(ask(&service, "kernels 10 1") >= 0);
        assert_int_equal(ask(&service, "destroy 3"), 0);
        assert_int_equal(ask(&service, "synchronize"), 0); /* the emulated driver has few streams */
    }
    assert_int_equal(ask(&service, "stream 0"), 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    assert_int_equal(number_of(&registrar, "service", "streams_unmarked"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* ---- contexts ---- */

/* A context that ends takes its streams along: the shim does not use them, and none of their work
 * is outstanding. */
static void streams_end_with_context(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--window-us", "20000", "--gate-us", "1000");
    start_launcher(&service, "service");
    for (int i = 0; i < PAGE_STREAMS_MAX; i++) {
        assert_int_equal(ask(&service, "enter"), 0);
        assert_true(ask(&service, "kernels 50 1") >= 0); /* not marked yet */
        assert_int_equal(ask(&service, "stream 1"), 0);
        assert_true(ask(&service, "kernels 50 1") >= 0);
        assert_int_equal(ask(&service, "leave"), 0);
        assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
        assert_true(ask(&service, "kernels 50 1") >= 0);
        assert_int_equal(ask(&service, "synchronize"), 0);
    }
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_true(ask(&service, "kernels 10000 20") >= 0);
    assert_int_equal(ask(&service, "reset"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_true(ask(&service, "kernels 50 1") >= 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    assert_int_equal(number_of(&registrar, "service", "marks_failed"), 0);
    assert_int_equal(number_of(&registrar, "service", "streams_unmarked"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* The context lives on after the release, because the driver still counts another user of it. */
static void released_context_keeps_shim_state(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--window-us", "20000", "--gate-us", "1000");
    start_launcher(&service, "service");
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_int_equal(ask(&service, "begin"), 0);
    assert_true(ask(&service, "kernels 100 10") >= 0);
    assert_int_equal(ask(&service, "share"), 0);
    assert_true(ask(&service, "kernels 100 10") >= 0);
    assert_int_equal(ask(&service, "end-capture"), 20);
    assert_true(ask(&service, "kernels 10000 20") >= 0);
    assert_int_equal(ask(&service, "share"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_true(ask(&service, "kernels 100 2") >= 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_int_equal(ask(&service, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    assert_int_equal(number_of(&registrar, "service", "marks_failed"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* Kernels are measured in any context. */
static void window_applies_in_every_context(void **state)
{
    static const char *const ways[][3] = {
        {"synchronize", "enter", NULL},        /* beside the first */
        {"leave", "enter", NULL},              /* after one that has ended */
        {"kernels 10000 6", "leave", "reset"}, /* with measurements in flight */
    };
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "20000");
    start_launcher(&task, "task");
    learn_cost(&registrar, &task);
    for (int i = 0; i < 3; i++) {
        uint64_t timed = number_of(&registrar, "task", "launches_timed");
        for (int j = 0; j < 3 && ways[i][j]; j++)
            assert_true(ask(&task, ways[i][j]) >= 0);
        while (number_of(&registrar, "task", "launches_timed") < timed + 6) {
            assert_true(ask(&task, "kernels 10000 2") >= 0);
            assert_int_equal(ask(&task, "synchronize"), 0);
            assert_true(number_of(&registrar, "task", "launches_kernel") < 1000);
        }
        uint64_t gpu_ns = number_of(&registrar, "task", "gpu_time_kernel_ns");
        assert_true(ask(&task, "kernels 10000 20") >= 20 * KERNEL_US - 2 * WINDOW_US);
        assert_true(number_of(&registrar, "task", "outstanding_ns") <=
                    (uint64_t)(WINDOW_US + KERNEL_US) * 1000);
        assert_true(number_of(&registrar, "task", "gpu_time_kernel_ns") - gpu_ns >=
                    10000000 * UINT64_C(10));
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* The division of a device uses the costs of a service's launches. */
static void service_launches_are_measured_often(void **state)
{
    enum { BATCHES = 16 };
    struct talker registrar, service;
    uint64_t timed = 0;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--gate-us", "0");
    start_launcher(&service, "service");
    for (int i = 0; i <= BATCHES; i++) {
        assert_true(ask(&service, "kernels 10 64") >= 0);
        assert_int_equal(ask(&service, "synchronize"), 0);
        if (i == 0)
            timed = number_of(&registrar, "service", "launches_timed");
    }
    /* About once in 64 launches, and not once in 256. */
    assert_true(number_of(&registrar, "service", "launches_timed") - timed >= 2 * BATCHES / 3);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* ---- the gate ---- */

static void busy_service_holds_task(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--linger-us", "100");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 1") >= 0);
    assert_int_equal(number_of(&registrar, "task", "held_gate_ns"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);

    assert_true(ask(&service, "kernels 100000 8") >= 0); /* a mark follows the eighth */
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_true(ask(&task, "kernels 1000 1") >= 100 * MS_US);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 0);

    /* A graph is marked at once; a single kernel when the program waits. */
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_int_equal(ask(&service, "capture 100000 2"), 2);
    assert_true(ask(&service, "graphs 1") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 50 * MS_US);
    assert_true(ask(&service, "kernels 1000 1") >= 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    /* Work before the launch counts too: input goes to the device. */
    assert_int_equal(ask(&service, "upload 1000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_int_equal(ask(&service, "download 1000"), 0);
    PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    assert_int_equal(number_of(&registrar, "service", "copied_to_device_bytes"), 1000);
    assert_int_equal(number_of(&registrar, "service", "copied_to_host_bytes"), 1000);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void gate_opens_after_maximum(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--linger-us", "0");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    /* The task's first launch may come before it knows the service. */
    PARTY_WAIT(ask(&task, "kernels 1 1") >= 0 && number_of(&registrar, "task", "neighbours") == 1);
    assert_true(ask(&service, "kernels 1000000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 20 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    /* The stream has made no progress since, and the task does not wait for it again. */
    assert_true(ask(&task, "kernels 1000 50") >= 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    /* The task waits for another stream of the same service. */
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_true(ask(&service, "kernels 1000000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 20 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 2);
    end_by_kill(&service);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A task that only copies learns of a service too; its large copies and fills wait for it. */
static void large_copies_wait_at_gate(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--linger-us", "0");
    start_launcher(&task, "task");
    start_launcher(&service, "service");
    PARTY_WAIT(ask(&task, "upload 2000000") == 0 &&
               number_of(&registrar, "task", "neighbours") == 1);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 0);
    /* No mark follows a single kernel: the service counts as busy until its program waits. */
    assert_true(ask(&service, "kernels 100 1") >= 0);
    assert_int_equal(ask(&task, "upload 2000000"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    /* Large fills wait as well. */
    uint64_t copies = number_of(&registrar, "task", "copies_on_device");
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_true(ask(&service, "kernels 100 1") >= 0);
    assert_int_equal(ask(&task, "fill-memory 1000000"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(ask(&task, "fill-memory 2000000"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 2);
    assert_int_equal(ask(&service, "stream 2"), 0);
    assert_true(ask(&service, "kernels 100 1") >= 0);
    assert_int_equal(ask(&task, "fill-rows 4000 500"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 3);
    assert_int_equal(number_of(&registrar, "task", "copies_on_device"), copies);
    /* The sum of a batch counts, even if the driver lacks batches. */
    assert_int_equal(ask(&service, "stream 3"), 0);
    assert_true(ask(&service, "kernels 100 1") >= 0);
    (void)ask(&task, "batch 400000 2");
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 3);
    (void)ask(&task, "batch 400000 4");
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 4);
    assert_int_equal(number_of(&registrar, "task", "copied_other_bytes"), 2400000);
    uint64_t copied = number_of(&registrar, "task", "copies_other");
    assert_int_equal(ask(&service, "stream 4"), 0);
    assert_true(ask(&service, "kernels 100 1") >= 0);
    assert_int_equal(ask(&task, "batch-3d 100 1000"), 0);
    assert_int_equal(number_of(&registrar, "task", "copies_other"), copied + 2);
    assert_int_equal(number_of(&registrar, "task", "copied_other_bytes"),
                     2400000 + 2 * (1 + 16) * 100 * 1000);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 5);
    end_by_kill(&service);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A service that dies while busy delays neither waiting nor later launches. */
static void dead_service_delays_no_launch(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--linger-us", "0");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    for (int i = 0; i < 2; i++) {
        assert_true(ask(&service, "kernels 100000000 8") >= 0);
        tell(&task, "kernels 1000 1");
        PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 1);
        end_by_kill(&service);
        assert_true(hear(&task) < FOREVER_US);
        assert_true(ask(&task, "kernels 1000 5") < FOREVER_US);
        start_launcher(&service, "service");
    }
    assert_int_equal(finish(&service, "end"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* ---- the rate, and streams without a slot ---- */

static void rate_limit_is_not_exceeded(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--rate-permille", "0");
    start_launcher(&task, "task");
    learn_cost(&registrar, &task);
    tell(&registrar, "rate-permille 250");
    assert_true(number_of(&registrar, "task", "held_rate_ns") == 0);
    /* 400 ms of the device's time, less a burst of 20 ms and one launch ahead. */
    assert_true(ask(&task, "kernels 10000 40") >= 4 * (400 - 20 - 10) * MS_US * 8 / 10);
    assert_true(number_of(&registrar, "task", "held_rate_ns") >= UINT64_C(500000000));
    assert_true(number_of(&registrar, "task", "rate_periods") >= 3);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void streams_without_slot_are_held(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--lease-ms", "600000", "--gate-us", "0");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "fill") >= PAGE_STREAMS_MAX);
    uint64_t unmarked = number_of(&registrar, "task", "streams_unmarked");
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    assert_int_equal(number_of(&registrar, "task", "streams_unmarked"), unmarked + 2);
    tell(&registrar, "lease-ms -1000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 1000 1");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    tell(&registrar, "lease-ms 600000");
    assert_true(hear(&task) >= 0);
    /* Their cost is not measured: each counts as 0.1 ms. */
    tell(&registrar, "rate-permille 250");
    assert_int_equal(number_of(&registrar, "task", "held_rate_ns"), 0);
    assert_true(ask(&task, "kernels 10 400") >= 4 * (40 - 5) * MS_US * 8 / 10);
    assert_true(number_of(&registrar, "task", "held_rate_ns") >= UINT64_C(50000000));
    tell(&registrar, "rate-permille 0");
    tell(&registrar, "gate-us 20000");
    assert_true(ask(&service, "kernels 1000000 8") >= 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 0);
    assert_true(ask(&task, "kernels 1000 1") >= 20 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    end_by_kill(&service);
    end_by_kill(&task);
    finish(&registrar, "quit");
}

/* The captured graph has the work of two streams, and none of the shim's. */
static void capture_without_slot_is_unchanged(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "1000", "--gate-us", "0");
    start_launcher(&task, "task");
    assert_int_equal(ask(&task, "stream 1"), 0);
    assert_true(ask(&task, "kernels 100 20") >= 0);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_true(ask(&task, "fill") >= PAGE_STREAMS_MAX);
    assert_int_equal(ask(&task, "stream 2"), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(&task, "capture-joined 100 100"), 100);
    assert_int_equal(ask(&task, "stream 1"), 0);
    launch_until_measured(&registrar, &task);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* ---- processes ---- */

static void forked_child_is_held(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "50000", "--window-us", "40000");
    start_launcher(&service, "service");
    assert_true(ask(&service, "kernels 100000000 8") >= 0);
    start_closed_launcher(&task, "task");
    /* The first launches may come before a process knows the service. */
    assert_int_equal(ask(&task, "fork 50000"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    assert_int_equal(ask(&task, "open"), 0);
    PARTY_WAIT(ask(&task, "kernels 1000 1") >= 50 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    end_by_kill(&service);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Under MPS a client that is killed with a deep queue takes its neighbours along; a client within
 * its window does not. */
static void kill_a_client(const char *window_us, const char *first, uint64_t launches,
                          bool is_harmless)
{
    struct talker registrar, task;
    const char *const background[] = {"-d", NULL};
    char output[256];
    party_make_directories();
    assert_int_equal(
        party_program("nvidia-cuda-mps-control", background, NULL, output, sizeof(output)), 0);
    start_registrar(&registrar, "--window-us", window_us, "--gate-us", "0");
    struct party_client neighbour = party_start(launch_fixture_api(), 1000, 0);
    assert_int_equal(party_opened(&neighbour), 0);
    start_launcher(&task, "task");
    assert_true(ask(&task, first) >= 0 && ask(&task, "synchronize") == 0);
    tell(&task, "kernels 10000 300");
    PARTY_WAIT(number_of(&registrar, "task", "launches_kernel") >= launches);
    end_by_kill(&task);
    if (is_harmless)
        assert_true(party_makes_progress(&neighbour));
    else
        assert_int_equal(party_error(&neighbour), CUDA_ERROR_ILLEGAL_ADDRESS);
    party_end(&neighbour, SIGKILL);
    finish(&registrar, "quit");
    party_control("quit -t 0", output, sizeof(output));
    party_remove_directories();
}

static void window_makes_kills_harmless(void **state)
{
    (void)state;
    /* As agents set the window, while the kernels' cost is unknown, and if the same kernel was
     * short before. */
    kill_a_client("20000", "kernels 1 0", 2, true);
    kill_a_client("20000", "kernels 1 0", 20, true);
    kill_a_client("20000", "kernels 1 3", 23, true);
    kill_a_client("0", "kernels 1 0", 20, false);
}

int main(int argc, char **argv)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_devices, tear_down_devices)
#define SLICED(function)                                                                           \
    cmocka_unit_test_setup_teardown(function, set_up_sliced_devices, tear_down_devices)
    const struct CMUnitTest tests[] = {
        TEST(window_bounds_outstanding_work),
        TEST(window_bounds_short_kernels),
        TEST(awaited_work_is_not_outstanding),
        TEST(graphs_are_charged_measured_cost),
        TEST(module_unload_keeps_kernel_costs),
        TEST(captures_are_left_unchanged),
        TEST(refused_capture_leaves_capture_open),
        TEST(concurrent_launches_leave_no_stream_busy),
        TEST(streams_end_with_context),
        TEST(released_context_keeps_shim_state),
        TEST(window_applies_in_every_context),
        TEST(service_launches_are_measured_often),
        TEST(busy_service_holds_task),
        TEST(gate_opens_after_maximum),
        TEST(large_copies_wait_at_gate),
        TEST(dead_service_delays_no_launch),
        TEST(rate_limit_is_not_exceeded),
        cmocka_unit_test_setup_teardown(streams_without_slot_are_held, set_up_three_devices,
                                        tear_down_devices),
        cmocka_unit_test_setup_teardown(capture_without_slot_is_unchanged, set_up_three_devices,
                                        tear_down_devices),
        TEST(forked_child_is_held),
        SLICED(window_makes_kills_harmless),
    };
    if (!launch_fixture_begin(argc, argv))
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    launch_fixture_end();
    return failed;
}
