#include "device/share.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const int64_t MINUTE_MS = 60 * 1000;
static const int64_t DAY_MS = 24 * 60 * INT64_C(60000);
static const int64_t START_MS = INT64_C(1800000000000);

static void activity_beside_others_is_computed(void **state)
{
    struct share_activity a;
    (void)state;
    share_activity_init(&a);
    assert_true(share_activity_sample(&a, 90, -1, true) < 0);
    assert_true(fabs(share_activity_sample(&a, 90, 0.5, false) - 50) < 1e-9); /* an upper bound */
    assert_true(fabs(share_activity_sample(&a, 20, 0.5, true) - 20) < 1e-9);
    assert_true(fabs(share_activity_sample(&a, 95, 0.25, false) - 10) < 1e-9);
    for (int i = 0; i < 200; i++)
        (void)share_activity_sample(&a, 30, 0.5, true);
    assert_true(fabs(share_activity_sample(&a, 95, 0.5, false) - 30) < 0.01);
}

static void forecast_is_95th_percentile_of_interval(void **state)
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

static void forecast_uses_same_time_yesterday(void **state)
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

static void task_share_is_clipped_and_divided(void **state)
{
    (void)state;
    assert_int_equal(share_of_task_percent(0, 1), 90);
    assert_int_equal(share_of_task_percent(35, 1), 65);
    assert_int_equal(share_of_task_percent(100, 1), 10);
    assert_int_equal(share_of_task_percent(35, 2), 32);
    assert_int_equal(share_of_task_percent(0, 3), 30);
    assert_int_equal(share_of_task_percent(90, 3), 10);
}

/* The driver gives floor(percent of the SMs). */
static void share_rounds_up_to_whole_sms(void **state)
{
    (void)state;
    assert_int_equal(share_in_whole_sms(30, 132), 31); /* 39.6 SMs: 40 of them need 30.3 % */
    assert_int_equal(share_in_whole_sms(50, 132), 50);
    assert_int_equal(share_in_whole_sms(100, 132), 100);
    assert_int_equal(share_in_whole_sms(65, 0), 65);
    for (int sms = 1; sms <= 200; sms++)
        for (int percent = 1; percent <= 100; percent++) {
            int whole = share_in_whole_sms(percent, sms);
            assert_true(whole >= percent && whole <= 100);
            assert_true(whole * sms / 100 * 100 >= percent * sms || whole == 100);
        }
}

/* Chooses every 200 ms during `ms`. Returns how often the mode changed. */
static int choose_for(struct share_choice *c, int64_t *now_ms, int64_t ms, struct share_facts facts)
{
    int changes = 0;
    facts.kept_ms = SHARE_MODE_KEPT_MS;
    facts.elapsed_ms = 200;
    for (int64_t end_ms = *now_ms + ms; *now_ms < end_ms; *now_ms += 200)
        changes += share_choose(c, *now_ms, &facts);
    return changes;
}

static void mode_follows_busy_fraction(void **state)
{
    struct share_choice c;
    int64_t now_ms = START_MS;
    (void)state;
    share_choice_init(&c);
    assert_int_equal(
        choose_for(&c, &now_ms, 30 * MINUTE_MS, (struct share_facts){.busy_fraction = 0.49}), 0);
    assert_int_equal(c.mode, SHARE_TIME);
    assert_int_equal(
        choose_for(&c, &now_ms, 21 * MINUTE_MS, (struct share_facts){.busy_fraction = 0.6}), 1);
    assert_int_equal(c.mode, SHARE_SPACE);
    assert_true(fabs(c.busy_fraction - 0.6) < 0.01);
    assert_int_equal(
        choose_for(&c, &now_ms, 21 * MINUTE_MS, (struct share_facts){.busy_fraction = -1}), 1);
    assert_int_equal(c.mode, SHARE_TIME); /* the busy fraction is unknown */
}

/* After a day without samples, a first sample does not change the mode. */
static void mode_survives_gap_without_samples(void **state)
{
    const struct share_facts first = {.kept_ms = SHARE_MODE_KEPT_MS, .busy_fraction = 0};
    struct share_choice c;
    int64_t now_ms = START_MS;
    (void)state;
    share_choice_init(&c);
    assert_int_equal(
        choose_for(&c, &now_ms, 21 * MINUTE_MS, (struct share_facts){.busy_fraction = 0.6}), 1);
    now_ms += DAY_MS;
    assert_false(share_choose(&c, now_ms, &first));
    assert_int_equal(
        choose_for(&c, &now_ms, 9 * MINUTE_MS, (struct share_facts){.busy_fraction = -1}), 0);
    assert_int_equal(c.mode, SHARE_SPACE);
    assert_int_equal(
        choose_for(&c, &now_ms, 2 * MINUTE_MS, (struct share_facts){.busy_fraction = -1}), 1);
    assert_int_equal(c.mode, SHARE_TIME);
}

static void mode_is_kept_for_minimum_time(void **state)
{
    struct share_choice c;
    int64_t now_ms = START_MS, changed_ms = 0;
    int changes = 0;
    (void)state;
    share_choice_init(&c);
    for (int i = 0; i < 120; i++) { /* a service that is busy every other minute */
        const struct share_facts facts = {.busy_fraction = i / 10 % 2};
        int changed = choose_for(&c, &now_ms, MINUTE_MS, facts);
        assert_true(changed <= 1);
        assert_true(!changed || changes == 0 || now_ms - changed_ms >= SHARE_MODE_KEPT_MS);
        changed_ms = changed ? now_ms : changed_ms;
        changes += changed;
    }
    assert_true(changes >= 5);
    /* A clock that is set back restarts the minimum time. */
    now_ms -= DAY_MS;
    assert_int_equal(
        choose_for(&c, &now_ms, 9 * MINUTE_MS, (struct share_facts){.busy_fraction = 0}), 0);
}

static void service_samples_decide_division(void **state)
{
    struct share_service s, other;
    const struct share_service *both[] = {&s, &other};
    struct share_division d;
    struct share_look look = {.facts = {.kept_ms = SHARE_MODE_KEPT_MS, .elapsed_ms = 200}};
    (void)state;
    share_service_init(&s, 7);
    share_service_init(&other, 8);
    assert_true(share_service_is_sane(&s));
    share_divide(both, 2, START_MS, &d);
    assert_int_equal(d.mode, SHARE_TIME);
    assert_int_equal(d.forecast_percent, -1);
    look.facts.busy_fraction = 0.8;
    look.sm_percent = 40;
    look.alone = true;
    int changes = 0;
    for (int i = 0; i <= 5 * 601; i++) /* ten minutes, and a second */
        changes += share_service_look(&s, START_MS + i * 200, &look);
    int64_t now_ms = s.seen_ms;
    assert_int_equal(changes, 1);
    share_divide(both, 1, now_ms, &d);
    assert_int_equal(d.mode, SHARE_SPACE);
    assert_int_equal(d.forecast_percent, 40);
    look = (struct share_look){
        .facts = {.kept_ms = SHARE_MODE_KEPT_MS, .elapsed_ms = 200, .busy_fraction = 0.7},
        .sm_percent = -1};
    (void)share_service_look(&other, now_ms, &look);
    /* The other service is still in mode time, and may use 70 %. */
    share_divide(both, 2, now_ms, &d);
    assert_int_equal(d.mode, SHARE_TIME);
    assert_int_equal(d.forecast_percent, 100);
    assert_true(share_service_is_sane(&s) && share_service_is_sane(&other));
}

static void corrupt_service_state_is_detected(void **state)
{
    struct share_service s;
    (void)state;
    share_service_init(&s, 7);
    s.activity.solo_percent = NAN;
    assert_false(share_service_is_sane(&s));
    share_service_init(&s, 7);
    s.choice.mode = 2;
    assert_false(share_service_is_sane(&s));
    share_service_init(&s, 7);
    s.choice.busy_ms = INFINITY;
    assert_false(share_service_is_sane(&s));
}

static void task_rate_follows_mode_and_forecast(void **state)
{
    (void)state;
    assert_int_equal(share_mode_of_task(SHARE_TIME, false), SHARE_TIME);
    assert_int_equal(share_mode_of_task(SHARE_TIME, true), SHARE_SPACE);
    assert_int_equal(share_mode_of_task(SHARE_SPACE, false), SHARE_SPACE);
    struct share_division division = {.forecast_percent = 40, .task_count = 1};
    assert_int_equal(share_rate_permille(&division, 100), 600);
    assert_int_equal(share_rate_permille(&division, 60), 0);
    assert_int_equal(share_rate_permille(&division, 64), 0); /* within the slack */
    division.task_count = 2;
    assert_int_equal(share_rate_permille(&division, 60), 300);
    assert_int_equal(share_rate_permille(&division, 31), 0);
    division = (struct share_division){.forecast_percent = 95, .task_count = 1};
    assert_int_equal(share_rate_permille(&division, 60), 100);
    division.forecast_percent = -1;
    assert_int_equal(share_rate_permille(&division, 100), 0);
}

static void share_persistently_off_counts_as_drift(void **state)
{
    struct share_drift d = {0};
    (void)state;
    assert_false(share_drifts(&d, 1000, 100, 50, 69));
    assert_false(share_drifts(&d, 2000, 100, 50, 70));
    assert_false(share_drifts(&d, 2099, 100, 50, 70));
    assert_true(share_drifts(&d, 2100, 100, 50, 70));
    /* A moment at the wanted share restarts the period. */
    assert_false(share_drifts(&d, 2150, 100, 50, 50));
    assert_false(share_drifts(&d, 2200, 100, 50, 30));
    assert_false(share_drifts(&d, 2299, 100, 50, 30));
    assert_true(share_drifts(&d, 2300, 100, 50, 30));
    /* A clock that is set back restarts the period. */
    assert_false(share_drifts(&d, 500, 100, 50, 30));
    assert_true(share_drifts(&d, 600, 100, 50, 30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activity_beside_others_is_computed),
        cmocka_unit_test(forecast_is_95th_percentile_of_interval),
        cmocka_unit_test(forecast_uses_same_time_yesterday),
        cmocka_unit_test(task_share_is_clipped_and_divided),
        cmocka_unit_test(share_rounds_up_to_whole_sms),
        cmocka_unit_test(mode_follows_busy_fraction),
        cmocka_unit_test(mode_survives_gap_without_samples),
        cmocka_unit_test(mode_is_kept_for_minimum_time),
        cmocka_unit_test(service_samples_decide_division),
        cmocka_unit_test(corrupt_service_state_is_detected),
        cmocka_unit_test(task_rate_follows_mode_and_forecast),
        cmocka_unit_test(share_persistently_off_counts_as_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
