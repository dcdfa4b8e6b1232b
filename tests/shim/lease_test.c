/*
 * Launches under a task's lease, and the search of a process for the agent that extends it: real
 * processes on an emulated device, with a registrar as their agent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/page.h"
#include "tests/shim/launch_fixture.h"

static void expired_lease_fences_only_tasks(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&task, "kernels 1000 2") >= 0);
    tell(&registrar, "lease-ms -1000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 1000 1");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    assert_true(ask(&service, "kernels 1000 2") >= 0);
    assert_int_equal(number_of(&registrar, "service", "state"), STATUS_RUNNING);
    tell(&registrar, "lease-ms 600000");
    assert_true(hear(&task) >= 0);
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    assert_true(number_of(&registrar, "task", "held_lease_ns") > 0);
    /* Half a minute after its end, or when the limits say, the task is told to end. */
    tell(&registrar, "fence-ms 600000");
    tell(&registrar, "lease-ms -31000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 1000 1");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    tell(&registrar, "lease-ms 600000");
    assert_true(hear(&task) >= 0);
    tell(&registrar, "fence-ms 0");
    tell(&registrar, "lease-ms -31000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    int status = finish(&task, "kernels 1000 1");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* A lease also ends for a task that launched often before, and since then has neither launched nor
 * waited by a call of the driver. */
static void lease_end_between_launches_fences_task(void **state)
{
    enum { LEASE_US = 300 * MS_US };
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    start_launcher(&task, "task");
    tell(&registrar, "lease-ms 300");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 1 500");
    usleep(LEASE_US + 100 * MS_US);
    tell(&task, "kernels 1 1");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    tell(&registrar, "lease-ms 600000");
    assert_true(hear(&task) >= 0 && hear(&task) >= 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A launch that waits meanwhile for room in the window does not go to the driver afterwards. */
static void lease_end_fences_held_launch(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "1000");
    start_launcher(&task, "task");
    for (int i = 0; i < 3; i++) {
        assert_true(ask(&task, "kernels 600000 1") >= 0);
        assert_int_equal(ask(&task, "synchronize"), 0);
    }
    tell(&registrar, "lease-ms 300");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 600000 2");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    tell(&registrar, "lease-ms 600000");
    assert_true(hear(&task) >= 0);
    assert_true(number_of(&registrar, "task", "held_window_ns") > 0);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* Launches rarely, until the process has found the new agent. */
static void launch_until_rejoined(const struct talker *registrar, const struct talker *launcher,
                                  const char *mark)
{
    enum { LAUNCHES_MAX = 1000, PAUSE_US = 10000 }; /* more launches would not be rare */
    for (int i = 0; number_of(registrar, mark, "rejoins") != 1; i++) {
        assert_true(i < LAUNCHES_MAX);
        assert_true(ask(launcher, "kernels 100 1") >= 0);
        usleep(PAUSE_US);
    }
}

/* A process that rarely launches finds the next agent while the lease of the last one holds, and
 * also after its end. */
static void rare_launches_find_new_agent(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&service, "kernels 100 1") >= 0 && ask(&task, "kernels 100 1") >= 0);
    end_by_kill(&registrar);
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    launch_until_rejoined(&registrar, &service, "service");
    launch_until_rejoined(&registrar, &task, "task");
    /* During a delayed launch. */
    tell(&registrar, "lease-ms -1000");
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    tell(&task, "kernels 100 1");
    PARTY_WAIT(number_of(&registrar, "task", "state") == STATUS_FENCED);
    end_by_kill(&registrar);
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    assert_true(hear(&task) >= 0);
    assert_int_equal(number_of(&registrar, "task", "rejoins"), 2);
    assert_int_equal(number_of(&registrar, "task", "state"), STATUS_RUNNING);
    /* After a time without a launch. */
    tell(&registrar, "lease-ms -1000");
    assert_int_equal(number_of(&registrar, "task", "ended"), 0);
    end_by_kill(&registrar);
    start_registrar(&registrar, "--lease-ms", "600000", "--window-us", "40000");
    assert_true(ask(&task, "kernels 100 1") >= 0);
    assert_int_equal(number_of(&registrar, "task", "rejoins"), 3);
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

int main(int argc, char **argv)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up_devices, tear_down_devices)
    const struct CMUnitTest tests[] = {
        TEST(expired_lease_fences_only_tasks),
        TEST(lease_end_between_launches_fences_task),
        TEST(lease_end_fences_held_launch),
        TEST(rare_launches_find_new_agent),
    };
    if (!launch_fixture_begin(argc, argv))
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    launch_fixture_end();
    return failed;
}
