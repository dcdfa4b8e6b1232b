/* Tests the rate's controller on a simulated clock: exact, and as fast as the processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>

#include "shim/launch/rate.h"

enum { MS_NS = 1000000 };

/* Runs a task that always has the next launch ready. Returns the part of the time that it got, in
 * permille. Every wait is `late_ns` longer than asked for, and charges are cost_percent of the true
 * costs. */
static uint64_t run(uint32_t granted_permille, uint64_t cost_ns, uint64_t late_ns,
                    uint32_t cost_percent, uint64_t *ret_mean_error)
{
    struct rate rate = {0};
    struct rate_report report;
    uint64_t now_ns = 1, used_ns = 0, periods = 0, error = 0, busy_until_ns = 0;
    while (now_ns < UINT64_C(20000) * MS_NS) {
        uint64_t wait_ns =
            rate_charge(&rate, now_ns, cost_ns * cost_percent / 100, granted_permille, &report);
        periods += report.periods;
        error += report.error_permille;
        now_ns += wait_ns + (wait_ns ? late_ns : 0);
        /* The window: at most one launch ahead of the device. */
        busy_until_ns = (busy_until_ns > now_ns ? busy_until_ns : now_ns) + cost_ns;
        used_ns += cost_ns;
        if (busy_until_ns - now_ns > 2 * cost_ns)
            now_ns = busy_until_ns - 2 * cost_ns;
        now_ns += 1000;
    }
    *ret_mean_error = periods ? error / periods : 1000;
    return used_ns * 1000 / now_ns;
}

static void rate_tracks_target(void **state)
{
    static const uint32_t targets[] = {50, 200, 500, 800};
    static const uint64_t costs[] = {10000, 1 * MS_NS, 30 * MS_NS};
    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
        for (size_t j = 0; j < sizeof(costs) / sizeof(*costs); j++) {
            uint64_t error, got = run(targets[i], costs[j], 60000, 100, &error);
            assert_in_range(got, targets[i] - targets[i] / 10, targets[i] + targets[i] / 10);
            if (costs[j] <= MS_NS)
                assert_in_range(error, 0, 50);
        }
    }
}

/* A task that asks for less than its grant is not delayed, and saves up one burst at most. */
static void task_below_grant_is_not_delayed(void **state)
{
    struct rate rate = {0};
    struct rate_report report;
    uint64_t now_ns = 1;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(rate_charge(&rate, now_ns, MS_NS, 500, &report), 0);
        assert_int_equal(report.periods, 0);
        now_ns += 10 * MS_NS;
    }
    uint64_t free_ns = 0;
    while (rate_charge(&rate, now_ns, MS_NS / 10, 500, &report) == 0)
        free_ns += MS_NS / 10;
    assert_in_range(free_ns, 1, RATE_BURST_MS * MS_NS);
}

/* Late wake-ups, as on a busy host, make the controller fill faster than granted. When the wake-ups
 * are in time again and another limit keeps the task just below that speed, the controller still
 * returns the task to its rate. */
static void excessive_speed_is_corrected(void **state)
{
    struct rate rate = {0};
    struct rate_report report;
    uint64_t now_ns = 1, used_ns = 0;
    (void)state;
    while (now_ns < UINT64_C(5000) * MS_NS)
        now_ns += rate_charge(&rate, now_ns, 20 * MS_NS, 800, &report) + 40 * MS_NS;
    assert_true(rate.speed > 900000);
    while (now_ns < UINT64_C(7000) * MS_NS)
        now_ns += rate_charge(&rate, now_ns, 4 * MS_NS, 800, &report) + 44 * MS_NS / 10;
    uint64_t start_ns = now_ns;
    while (now_ns < UINT64_C(12000) * MS_NS) {
        uint64_t wait_ns = rate_charge(&rate, now_ns, 4 * MS_NS, 800, &report);
        now_ns += wait_ns > 44 * MS_NS / 10 ? wait_ns : 44 * MS_NS / 10;
        used_ns += 4 * MS_NS;
    }
    assert_in_range(used_ns * 1000 / (now_ns - start_ns), 700, 840);
}

/* A launch of a minute must not delay the next launch by minutes. */
static void debt_of_long_launch_is_bounded(void **state)
{
    struct rate rate = {0};
    struct rate_report report;
    (void)state;
    uint64_t wait_ns = rate_charge(&rate, 1, UINT64_C(60000) * MS_NS, 100, &report);
    assert_in_range(wait_ns, 1, UINT64_C(2) * RATE_DEBT_MS_MAX * MS_NS);
}

/* Of two threads, the second may bring a time that it read before the first. */
static void rate_tolerates_times_out_of_order(void **state)
{
    struct rate rate = {0};
    struct rate_report report;
    uint64_t now_ns = MS_NS, used_ns = 0;
    (void)state;
    while (now_ns < UINT64_C(20000) * MS_NS) {
        uint64_t first_ns = rate_charge(&rate, now_ns, MS_NS, 200, &report);
        uint64_t second_ns = rate_charge(&rate, now_ns - 1000, MS_NS, 200, &report);
        used_ns += 2 * MS_NS;
        now_ns += 2000 + (first_ns > second_ns ? first_ns : second_ns);
    }
    assert_in_range(used_ns * 1000 / now_ns, 180, 220);
}

/* The handler interrupts a thread that holds the lock. */
static void signal_handler_launch_is_not_charged(void **state)
{
    struct rate rate = {0};
    struct rate_report report = {.periods = 1};
    (void)state;
    lock_take(&rate.lock);
    assert_int_equal(rate_charge(&rate, 1, UINT64_C(1000) * MS_NS, 10, &report), 0);
    assert_int_equal(report.periods, 0);
    lock_release(&rate.lock);
    assert_int_equal(rate.filled_ns, 0);
    assert_true(rate_charge(&rate, 1, UINT64_C(1000) * MS_NS, 10, &report) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_tracks_target),
        cmocka_unit_test(task_below_grant_is_not_delayed),
        cmocka_unit_test(excessive_speed_is_corrected),
        cmocka_unit_test(debt_of_long_launch_is_bounded),
        cmocka_unit_test(rate_tolerates_times_out_of_order),
        cmocka_unit_test(signal_handler_launch_is_not_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
