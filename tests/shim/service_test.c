/*
 * A service's reports of its work, the handling of work that no mark shows, and a rate beside a
 * share: real processes on an emulated device, with a registrar as their agent. Times as in
 * launch_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <unistd.h>

#include "abi/page.h"
#include "tests/shim/launch_fixture.h"

/* A kernel is marked before any call by which the program can learn of its end. */
static void mark_precedes_calls_that_report_end(void **state)
{
    static const char *const words[] = {"record", "query-event", "query-stream", "synchronize"};
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--linger-us", "0");
    start_launcher(&service, "service");
    assert_int_equal(ask(&service, "record"), 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        assert_true(ask(&service, "kernels 1000 1") >= 0);
        assert_int_equal(number_of(&registrar, "service", "busy_streams"), 1);
        assert_true(ask(&service, words[i]) >= 0);
        PARTY_WAIT(number_of(&registrar, "service", "busy_streams") == 0);
    }
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* The service has more streams than slots. After each synchronization of its context, later
 * launches of the service hold the task again. */
static void task_waits_for_streams_without_slot(void **state)
{
    struct talker registrar, service, task;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--linger-us", "0");
    start_launcher(&service, "service");
    start_launcher(&task, "task");
    assert_true(ask(&service, "fill") >= PAGE_STREAMS_MAX);
    PARTY_WAIT(ask(&task, "kernels 1 1") >= 0 && number_of(&registrar, "task", "neighbours") == 1);
    for (int i = 0; i < 3; i++) {
        uint64_t unmarked = number_of(&registrar, "service", "streams_unmarked");
        assert_true(ask(&service, "kernels 300000 1") >= 0);
        assert_int_equal(number_of(&registrar, "service", "streams_unmarked"), unmarked + 1);
        assert_true(ask(&task, "kernels 100 1") >= 20 * MS_US);
        assert_int_equal(ask(&service, "synchronize"), 0);
    }
    assert_int_equal(finish(&task, "end"), 0);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

/* The same work at the same rate, as a task that has half of the device. */
static void rate_is_relative_to_share(void **state)
{
    struct talker registrar, task;
    (void)state;
    start_registrar(&registrar, "--window-us", "40000", "--rate-permille", "0");
    start_launcher(&task, "task");
    learn_cost_of("kernels 5000 3", &registrar, &task);
    tell(&registrar, "rate-permille 200");
    assert_int_equal(number_of(&registrar, "task", "ended"), 0);
    int64_t whole_us = ask(&task, "kernels 5000 40");
    tell(&registrar, "share-percent 50");
    assert_int_equal(number_of(&registrar, "task", "ended"), 0);
    int64_t half_us = ask(&task, "kernels 5000 40");
    assert_true(whole_us > 0 && half_us > 0 && half_us * 10 < whole_us * 8);
    assert_int_equal(finish(&task, "end"), 0);
    finish(&registrar, "quit");
}

/* A burst ends when the host has waited for all of its work, and counts if the agent has said the
 * same about the service's company from its begin to its end. */
static void burst_ends_with_wait_and_counts(void **state)
{
    struct talker registrar, service;
    (void)state;
    start_registrar(&registrar, "--gate-us", "20000", "--company", "1");
    start_launcher(&service, "service");
    assert_true(ask(&service, "kernels 1000 3") >= 0);
    assert_int_equal(number_of(&registrar, "service", "burst"), 1);
    assert_int_equal(number_of(&registrar, "service", "bursts_alone"), 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(ask(&service, "synchronize"), 0);
        assert_int_equal(number_of(&registrar, "service", "burst"), 0);
        assert_int_equal(number_of(&registrar, "service", "bursts_alone"), i);
        assert_true(ask(&service, "kernels 1000 3") >= 0);
    }
    tell(&registrar, "company 2");
    assert_int_equal(number_of(&registrar, "service", "ended"), 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "service", "bursts_beside"), 0);
    assert_true(ask(&service, "kernels 1000 1") >= 0);
    assert_int_equal(ask(&service, "synchronize"), 0);
    assert_int_equal(number_of(&registrar, "service", "bursts_beside"), 1);
    assert_int_equal(number_of(&registrar, "service", "bursts_alone"), 3);
    assert_int_equal(finish(&service, "end"), 0);
    finish(&registrar, "quit");
}

int main(int argc, char **argv)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up_devices, tear_down_devices)
    const struct CMUnitTest tests[] = {
        TEST(mark_precedes_calls_that_report_end),
        cmocka_unit_test_setup_teardown(task_waits_for_streams_without_slot, set_up_three_devices,
                                        tear_down_devices),
        TEST(rate_is_relative_to_share),
        TEST(burst_ends_with_wait_and_counts),
    };
    if (!launch_fixture_begin(argc, argv))
        return 2;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    launch_fixture_end();
    return failed;
}
