#include "device/share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const int64_t MINUTE_MS = 60 * 1000;
static const int64_t DAY_MS = 24 * 60 * INT64_C(60000);
static const int64_t START_MS = INT64_C(1800000000000);

static void test_activity_is_measured_alone_and_computed_beside_others(void **state)
{
    struct share_activity a;
    (void)state;
    share_activity_init(&a);
    assert_true(share_activity_sample(&a, 90, 0.5, false) < 0);
    assert_true(fabs(share_activity_sample(&a, 20, 0.5, true) - 20) < 1e-9);
    assert_true(fabs(share_activity_sample(&a, 95, 0.25, false) - 10) < 1e-9);
    for (int i = 0; i < 200; i++)
        (void)share_activity_sample(&a, 30, 0.5, true);
    assert_true(fabs(share_activity_sample(&a, 95, 0.5, false) - 30) < 0.01);
}

static void test_forecast_is_the_95th_percentile_of_the_last_interval(void **state)
{
    struct share_forecast f;
    (void)state;
    share_forecast_init(&f);
    assert_int_equal(share_forecast_percent(&f, START_MS), -1);
    for (int i = 0; i < 100; i++)
        share_forecast_sample(&f, START_MS + i, i < 94 ? 20 : i < 96 ? 50 : 99);
    assert_int_equal(share_forecast_percent(&f, START_MS), 50);
    assert_int_equal(share_forecast_percent(&f, START_MS + 5 * MINUTE_MS), 50);
    assert_int_equal(share_forecast_percent(&f, START_MS + 11 * MINUTE_MS), -1);
}

static void test_forecast_knows_yesterday(void **state)
{
    struct share_forecast f;
    (void)state;
    share_forecast_init(&f);
    for (int i = 0; i < 10; i++)
        share_forecast_sample(&f, START_MS + 5 * MINUTE_MS, 70);
    for (int i = 0; i < 10; i++)
        share_forecast_sample(&f, START_MS + DAY_MS, 10);
    assert_int_equal(share_forecast_percent(&f, START_MS + DAY_MS), 70);
    assert_int_equal(share_forecast_percent(&f, START_MS + DAY_MS + 10 * MINUTE_MS), -1);
    assert_int_equal(share_forecast_percent(&f, START_MS + 2 * DAY_MS), 10);
}

static void test_a_share_is_clipped(void **state)
{
    (void)state;
    assert_int_equal(share_of_task_percent(0), 90);
    assert_int_equal(share_of_task_percent(35), 65);
    assert_int_equal(share_of_task_percent(100), 10);
}

static void test_mode_by_busy_fraction(void **state)
{
    struct share_choice c;
    struct share_facts facts = {.busy_fraction = 0.49};
    (void)state;
    share_choice_init(&c);
    assert_int_equal(share_choose(&c, 0, &facts), SHARE_TIME);
    facts.busy_fraction = 0.6;
    assert_int_equal(share_choose(&c, 9 * MINUTE_MS, &facts), SHARE_TIME);
    assert_int_equal(share_choose(&c, 10 * MINUTE_MS, &facts), SHARE_SPACE);
    facts.busy_fraction = 0.1;
    assert_int_equal(share_choose(&c, 19 * MINUTE_MS, &facts), SHARE_SPACE);
    assert_int_equal(share_choose(&c, 20 * MINUTE_MS, &facts), SHARE_TIME);
    facts = (struct share_facts){.busy_fraction = 0.9, .streams_tokens = true};
    assert_int_equal(share_choose(&c, 60 * MINUTE_MS, &facts), SHARE_TIME);
    facts = (struct share_facts){.busy_fraction = 0.1, .coarse = true};
    assert_int_equal(share_choose(&c, 80 * MINUTE_MS, &facts), SHARE_SPACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activity_is_measured_alone_and_computed_beside_others),
        cmocka_unit_test(test_forecast_is_the_95th_percentile_of_the_last_interval),
        cmocka_unit_test(test_forecast_knows_yesterday),
        cmocka_unit_test(test_a_share_is_clipped),
        cmocka_unit_test(test_mode_by_busy_fraction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
