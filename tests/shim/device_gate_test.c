/*
 * Streams that wait on the device for a service to be idle while their host goes on: real processes
 * on an emulated device, with a registrar as their agent. Times as in launch_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/shim/launch_fixture.h"

/* Starts a service, and a task whose kernels of 1 ms have known costs and whose streams wait for
 * the service's. */
static void start_pair(struct talker *ret_service, struct talker *ret_task,
                       const struct talker *registrar)
{
    start_launcher(ret_service, "service");
    assert_true(ask(ret_service, "kernels 10 8") >= 0);
    assert_int_equal(ask(ret_service, "synchronize"), 0);
    start_launcher(ret_task, "task");
    while (number_of(registrar, "task", "launches_timed") < 6 ||
           number_of(registrar, "task", "waits_gate") == 0) {
        assert_true(ask(ret_task, "kernels 1000 2") >= 0);
        assert_int_equal(ask(ret_task, "synchronize"), 0);
    }
}

/* Makes the service busy for a second or more, and shuts the task's streams. */
static void shut(const struct talker *registrar, const struct talker *service,
                 const struct talker *task)
{
    assert_true(ask(service, "kernels 200000 8") >= 0);
    assert_int_equal(number_of(registrar, "service", "busy_streams"), 1);
    assert_true(ask(task, "kernels 1000 2") >= 0);
    PARTY_WAIT(number_of(registrar, "task", "shut") == 1);
}

static void device_waits_while_host_continues(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    uint64_t held_ns = number_of(&registrar, "task", "held_gate_ns");
    shut(&registrar, &service, &task);
    /* Few enough that the host does not wait, whatever cost a busy machine made the shim
     * measure. */
    assert_true(ask(&task, "kernels 1000 6") >= 0);
    /* The host has gone on: its launches are still outstanding, beside a busy service. */
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_true(number_of(&registrar, "task", "outstanding_ns") >= 5 * MS_US * 1000);
    assert_int_equal(number_of(&registrar, "task", "shut"), 1);
    /* The launches finish only when the service is idle. */
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "task", "shut"), 0);
    assert_true(number_of(&registrar, "task", "shuts_gate") >= 1);
    assert_true(number_of(&registrar, "task", "held_gate_ns") - held_ns >= UINT64_C(200000000));
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 0);
    /* A large copy waits there too, and the host waits for the copy as without the shim. */
    shut(&registrar, &service, &task);
    assert_int_equal(ask(&task, "upload 2000000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    /* With gate-place 1, the host waits. */
    tell(&registrar, "gate-place 1");
    assert_int_equal(number_of(&registrar, "task", "ended"), 0);
    assert_true(ask(&service, "kernels 100000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 100 * MS_US);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* If a device's streams cannot wait, threads wait instead, and host functions write marks. */
static void host_waits_if_device_cannot(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    setenv("GPUMUX_EMU_STREAM_WORDS", "0", 1);
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    unsetenv("GPUMUX_EMU_STREAM_WORDS");
    assert_true(ask(&task, "kernels 1000 4") >= 0);
    assert_true(ask(&service, "kernels 100000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 1") >= 100 * MS_US);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(number_of(&registrar, "task", "holds_gate"), 1);
    assert_int_equal(number_of(&registrar, "task", "waits_gate"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* A host runs ahead as far as is harmless if the process is killed, and no further. */
static void host_runs_ahead_within_bound(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    shut(&registrar, &service, &task);
    tell(&task, "kernels 1000 60");
    PARTY_WAIT(number_of(&registrar, "task", "outstanding_ns") >= 15 * MS_US * 1000);
    while (number_of(&registrar, "service", "busy_streams") == 1)
        assert_true(number_of(&registrar, "task", "outstanding_ns") <= 30 * MS_US * 1000);
    assert_true(hear(&task) >= 0);
    assert_true(number_of(&registrar, "task", "holds_window") > 0);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

static void shut_device_passes_after_maximum(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    uint64_t held_ns = number_of(&registrar, "task", "held_gate_ns");
    /* A single kernel: between two, the streams might be shut already, and opened again for the
     * second. */
    assert_true(ask(&service, "kernels 100000000 1") >= 0);
    assert_true(ask(&task, "kernels 1000 5") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "passes_gate") == 1);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 0); /* the pass is counted first */
    assert_true(number_of(&registrar, "task", "held_gate_ns") - held_ns >= 20 * MS_US * 1000);
    /* The stream has made no progress since, and the task does not wait for it again. */
    assert_true(ask(&task, "kernels 1000 5") >= 0);
    assert_int_equal(number_of(&registrar, "task", "shut"), 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 1);
    /* The task waits for another stream of the same service. */
    assert_int_equal(ask(&service, "stream 1"), 0);
    assert_true(ask(&service, "kernels 100000000 1") >= 0);
    assert_true(ask(&task, "kernels 1000 5") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "passes_gate") == 2);
    end_by_kill(&service);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Work left by a thread of the service, in a stream that no other thread can mark, delays the task
 * once and not for ever. */
static void stuck_service_stream_delays_task_briefly(void **state)
{
    enum { REQUESTS = 12 };
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "200000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    assert_int_equal(ask(&service, "load 1000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    for (int i = 0; i < REQUESTS; i++) {
        assert_true(ask(&service, "kernels 100 1") >= 0);
        assert_int_equal(ask(&service, "synchronize"), 0);
        assert_true(ask(&task, "kernels 1000 2") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_in_range(number_of(&registrar, "task", "passes_gate"), 1, REQUESTS / 2);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* Streams that wait for a service go on when the service dies, and later streams do not wait for
 * it. */
static void dead_service_shuts_no_task(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    shut(&registrar, &service, &task);
    tell(&task, "synchronize");
    end_by_kill(&service);
    assert_int_equal(hear(&task), 0);
    assert_int_equal(number_of(&registrar, "task", "shut"), 0);
    uint64_t waits = number_of(&registrar, "task", "waits_gate");
    assert_true(ask(&task, "kernels 1000 20") >= 0);
    assert_int_equal(number_of(&registrar, "task", "waits_gate"), waits);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

static void collectives_open_shut_streams(void **state)
{
    struct talker registrar, service, task;
    char grid[32];
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    assert_true(ask(&service, "kernels 100000000 8") >= 0);
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 1);
    assert_int_equal(ask(&task, "kernel ncclDevKernel_AllReduce"), 0);
    snprintf(grid, sizeof(grid), "grid %d", COLLECTIVE_GRID);
    assert_int_equal(ask(&task, grid), 0);
    assert_true(ask(&task, "kernels 0 1") >= 0);
    /* A collective behind waiting kernels: they go on, and the collective with them. */
    PARTY_WAIT(number_of(&registrar, "task", "passes_gate") >= 1);
    end_by_kill(&service);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A child has a page and a keeper of its own. A child of a process that has used the driver cannot
 * use the driver, and leaves the words that its parent's streams wait for unchanged. */
static void child_process_waits_by_own_keeper(void **state)
{
    struct talker registrar, service, task, other;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    start_closed_launcher(&other, "task-other");
    shut(&registrar, &service, &task);
    int status = ask(&task, "fork-through 1000");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
    assert_int_equal(ask(&other, "fork-through 1000"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_true(number_of(&registrar, "task-other", "waits_gate") >= 1);
    assert_true(number_of(&registrar, "task-other", "shuts_gate") >= 1);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&other, "end"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* By the rule DUE a service is not waited for until its burst has lasted for a while. */
static void due_gate_shuts_for_long_burst_only(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    tell(&registrar, "burst-us 600000000");
    tell(&registrar, "gate-rule 1");
    assert_true(ask(&service, "kernels 100000000 8") >= 0);
    assert_int_equal(number_of(&registrar, "service", "burst"), 1);
    uint64_t shuts = number_of(&registrar, "task", "shuts_gate");
    assert_true(ask(&task, "kernels 1000 20") >= 0);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "task", "shuts_gate"), shuts);
    tell(&registrar, "burst-us 1000");
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 1);
    end_by_kill(&service);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* The agent holds a task beside an idle service, until the time that the agent set. */
static void held_task_waits_until_deadline(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    tell(&registrar, "hold-ms 600000");
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 1);
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    assert_int_equal(number_of(&registrar, "task", "passes_gate"), 0);
    tell(&registrar, "hold-ms 300");
    assert_int_equal(ask(&task, "synchronize"), 0);
    PARTY_WAIT(number_of(&registrar, "task", "shut") == 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* While the service sleeps, streams contain no waits; its next launch wakes the task's keeper. */
static void sleeping_service_costs_no_waits(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    tell(&registrar, "calm-us 4294967295");
    PARTY_WAIT(ask(&task, "kernels 1000 2") >= 0 &&
               number_of(&registrar, "task", "sleeps_gate") == 1);
    uint64_t waits = number_of(&registrar, "task", "waits_gate");
    for (int i = 0; i < 10; i++) {
        assert_true(ask(&task, "kernels 1000 5") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    assert_int_equal(number_of(&registrar, "task", "waits_gate"), waits);
    assert_int_equal(number_of(&registrar, "task", "sleeps_gate"), 1);
    shut(&registrar, &service, &task);
    /* Launches that were faster than the keeper's waking contain no waits. */
    PARTY_WAIT(ask(&task, "kernels 1000 1") >= 0 &&
               number_of(&registrar, "task", "waits_gate") > waits);
    assert_int_equal(ask(&task, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "service", "busy_streams"), 0);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* A task whose streams are shut ends in some way under MPS: its neighbours live on. */
static void end_while_shut(int number)
{
    struct talker registrar, service, task;
    char output[256];
    const char *const background[] = {"-d", NULL};
    party_make_directories();
    assert_int_equal(party_program("nvidia-cuda-mps-control", background, NULL, output, 256), 0);
    start_registrar(&registrar, "--gate-us", "600000000", "--window-us", "1000");
    start_pair(&service, &task, &registrar);
    struct party_client neighbour = party_start(launch_fixture_api(), 1000, 0);
    assert_int_equal(party_opened(&neighbour), 0);
    shut(&registrar, &service, &task);
    assert_true(ask(&task, "kernels 1000 6") >= 0);
    kill(task.pid, number); /* 0: no signal */
    int status = finish(&task, "end");
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : status, number);
    assert_true(party_makes_progress(&neighbour));
    assert_int_equal(ask(&service, "synchronize"), 0);
    assert_true(ask(&service, "kernels 10 8") >= 0);
    assert_int_equal(finish(&service, "end"), 0);
    party_end(&neighbour, SIGKILL);
    finish(&registrar, "quit");
    party_control("quit -t 0", output, sizeof(output));
    party_remove_directories();
}

static void end_while_shut_spares_neighbours(void **state)
{
    (void)state;
    end_while_shut(SIGTERM);
    end_while_shut(SIGKILL);
    end_while_shut(0);
}

int main(int argc, char **argv)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_devices, tear_down_devices)
#define SLICED(function)                                                                           \
    cmocka_unit_test_setup_teardown(function, set_up_sliced_devices, tear_down_devices)
    const struct CMUnitTest tests[] = {
        TEST(device_waits_while_host_continues),
        TEST(host_waits_if_device_cannot),
        TEST(host_runs_ahead_within_bound),
        TEST(shut_device_passes_after_maximum),
        TEST(stuck_service_stream_delays_task_briefly),
        TEST(dead_service_shuts_no_task),
        TEST(collectives_open_shut_streams),
        TEST(child_process_waits_by_own_keeper),
        SLICED(due_gate_shuts_for_long_burst_only),
        TEST(held_task_waits_until_deadline),
        TEST(sleeping_service_costs_no_waits),
        SLICED(end_while_shut_spares_neighbours),
    };
    if (!launch_fixture_begin(argc, argv))
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    launch_fixture_end();
    return failed;
}
