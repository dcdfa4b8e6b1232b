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
    assert_true(share_activity_sample(&a, 90, -1, true) < 0);
    assert_true(fabs(share_activity_sample(&a, 90, 0.5, false) - 50) < 1e-9); /* at most */
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
    assert_int_equal(share_of_task_percent(0, 1), 90);
    assert_int_equal(share_of_task_percent(35, 1), 65);
    assert_int_equal(share_of_task_percent(100, 1), 10);
    assert_int_equal(share_of_task_percent(35, 2), 32);
    assert_int_equal(share_of_task_percent(0, 3), 30);
    assert_int_equal(share_of_task_percent(90, 3), 10);
}

/* The driver gives floor(percent of the SMs). */
static void test_a_share_in_whole_sms_is_never_less(void **state)
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

/* Looks every 200 ms for so long; answers how often the mode changed. */
static int choose_for(struct share_choice *c, int64_t *now_ms, int64_t ms, struct share_facts facts)
{
    int changes = 0;
    facts.kept_ms = SHARE_MODE_KEPT_MS;
    facts.elapsed_ms = 200;
    for (int64_t end_ms = *now_ms + ms; *now_ms < end_ms; *now_ms += 200)
        changes += share_choose(c, *now_ms, &facts);
    return changes;
}

static void test_mode_by_busy_fraction(void **state)
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
    assert_int_equal(c.mode, SHARE_TIME); /* nothing is known of it any more */
}

/* For hours nobody looked: who comes then knows no better than who went. */
static void test_a_mode_outlives_who_chose_it(void **state)
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

static void test_a_mode_is_kept(void **state)
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
    /* A clock that was set back only begins the time anew. */
    now_ms -= DAY_MS;
    assert_int_equal(
        choose_for(&c, &now_ms, 9 * MINUTE_MS, (struct share_facts){.busy_fraction = 0}), 0);
}

static void test_a_service_is_looked_at(void **state)
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
    share_divide(both, 2, now_ms, &d); /* the other is in time still, and may use 70 % */
    assert_int_equal(d.mode, SHARE_TIME);
    assert_int_equal(d.forecast_percent, 100);
    assert_true(share_service_is_sane(&s) && share_service_is_sane(&other));
}

static void test_what_was_spoilt_is_noticed(void **state)
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

static void test_what_holds_a_task(void **state)
{
    (void)state;
    assert_int_equal(share_mode_of_task(SHARE_TIME, false), SHARE_TIME);
    assert_int_equal(share_mode_of_task(SHARE_TIME, true), SHARE_SPACE);
    assert_int_equal(share_mode_of_task(SHARE_SPACE, false), SHARE_SPACE);
    struct share_division division = {.forecast_percent = 40, .task_count = 1};
    assert_int_equal(share_rate_permille(&division, 100), 600);
    assert_int_equal(share_rate_permille(&division, 60), 0);
    assert_int_equal(share_rate_permille(&division, 64), 0); /* not worth it */
    division.task_count = 2;
    assert_int_equal(share_rate_permille(&division, 60), 300);
    assert_int_equal(share_rate_permille(&division, 31), 0);
    division = (struct share_division){.forecast_percent = 95, .task_count = 1};
    assert_int_equal(share_rate_permille(&division, 60), 100);
    division.forecast_percent = -1;
    assert_int_equal(share_rate_permille(&division, 100), 0);
}

static void test_a_share_that_is_off_for_long(void **state)
{
    struct share_drift d = {0};
    (void)state;
    assert_false(share_drifts(&d, 1000, 100, 50, 69));
    assert_false(share_drifts(&d, 2000, 100, 50, 70));
    assert_false(share_drifts(&d, 2099, 100, 50, 70));
    assert_true(share_drifts(&d, 2100, 100, 50, 70));
    /* It is as it should be for a moment: from the beginning. */
    assert_false(share_drifts(&d, 2150, 100, 50, 50));
    assert_false(share_drifts(&d, 2200, 100, 50, 30));
    assert_false(share_drifts(&d, 2299, 100, 50, 30));
    assert_true(share_drifts(&d, 2300, 100, 50, 30));
    /* The clock was set back. */
    assert_false(share_drifts(&d, 500, 100, 50, 30));
    assert_true(share_drifts(&d, 600, 100, 50, 30));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activity_is_measured_alone_and_computed_beside_others),
        cmocka_unit_test(test_forecast_is_the_95th_percentile_of_the_last_interval),
        cmocka_unit_test(test_forecast_knows_yesterday),
        cmocka_unit_test(test_a_share_is_clipped),
        cmocka_unit_test(test_a_share_in_whole_sms_is_never_less),
        cmocka_unit_test(test_mode_by_busy_fraction),
        cmocka_unit_test(test_a_mode_outlives_who_chose_it),
        cmocka_unit_test(test_a_mode_is_kept),
        cmocka_unit_test(test_a_service_is_looked_at),
        cmocka_unit_test(test_what_was_spoilt_is_noticed),
        cmocka_unit_test(test_what_holds_a_task),
        cmocka_unit_test(test_a_share_that_is_off_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
