#include "node/supervisor/latency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t START_MS = 1000000;

static bool report(struct latency *l, const char *lines, int64_t now_ms)
{
    return latency_report(l, lines, strlen(lines), now_ms);
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct latency));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void latency_places_have_no_gaps(void **state)
{
    (void)state;
    for (unsigned place = 0; place < CONTROL_LATENCY_PLACES; place++) {
        uint64_t low = control_latency_us(place), next = control_latency_us(place + 1);
        assert_true(next > low);
        assert_int_equal(control_latency_place(low), place);
        assert_int_equal(control_latency_place(next - 1), place);
        assert_true(low < CONTROL_LATENCY_FINE || (double)(next - low) / (double)low < 0.07);
    }
    assert_int_equal(control_latency_place(UINT64_MAX), CONTROL_LATENCY_PLACES - 1);
    assert_true(control_latency_us(CONTROL_LATENCY_PLACES) > UINT64_C(240) * 1000000);
}

static void percentiles_match_reported_latencies(void **state)
{
    struct latency *l = *state;
    struct control_latency found;
    latency_measure(l, 99, START_MS, &found);
    assert_int_equal(found.us_10s, 0);
    assert_int_equal(found.requests_10s, 0);
    assert_true(report(l, "1000 980\n50000 20\n", START_MS));
    latency_measure(l, 99, START_MS, &found);
    assert_int_equal(found.requests_10s, 1000);
    assert_int_equal(found.us_5s, found.us_10s);
    assert_true(found.us_10s > 46000 && found.us_10s < 54000);
    latency_measure(l, 90, START_MS, &found);
    assert_true(found.us_10s > 930 && found.us_10s < 1070);
}

static void latencies_expire_with_time(void **state)
{
    struct latency *l = *state;
    struct control_latency found;
    assert_true(report(l, "90000 300", START_MS));
    assert_true(report(l, "1000 300", START_MS + 6500));
    latency_measure(l, 99, START_MS + 6900, &found);
    assert_true(found.us_5s < 1100);
    assert_true(found.us_10s > 80000);
    assert_int_equal(found.requests_10s, 600);
    assert_true(report(l, "2000 1", START_MS + 11500)); /* replaces the first second */
    latency_measure(l, 99, START_MS + 11500, &found);
    assert_int_equal(found.requests_10s, 301);
    latency_measure(l, 99, START_MS + 60000, &found);
    assert_int_equal(found.requests_10s, 0);
    assert_int_equal(found.us_10s, 0);
}

static void malformed_latency_report_changes_nothing(void **state)
{
    static const char *const wrong[] = {"",          "x",
                                        "1",         "1 ",
                                        " 1 1",      "1  1",
                                        "1 1 \n",    "1 1\n\n2 2",
                                        "-1 1",      "1 -1",
                                        "1 1\nx",    "1 1000000001",
                                        "1 1\n2 \n", "9999999999999999999 1"};
    struct latency *l = *state;
    struct control_latency found;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(report(l, wrong[i], START_MS));
    char lines[8 * (CONTROL_LATENCIES_MAX + 1)] = "";
    for (size_t i = 0; i <= CONTROL_LATENCIES_MAX; i++)
        memcpy(lines + 4 * i, "9 1\n", 5);
    assert_false(report(l, lines, START_MS)); /* one line too many */
    assert_true(report(l, lines + 4, START_MS));
    latency_measure(l, 99, START_MS, &found);
    assert_int_equal(found.requests_10s, CONTROL_LATENCIES_MAX);
    for (int i = 0; i < 8; i++) /* more than a count can represent */
        assert_true(report(l, "1 1000000000", START_MS));
    latency_measure(l, 99, START_MS, &found);
    assert_true(found.requests_10s >= UINT32_MAX);
}

static void latency_is_due_at_intervals(void **state)
{
    struct latency *l = *state;
    assert_true(latency_is_due(l, START_MS));
    assert_false(latency_is_due(l, START_MS + LATENCY_EVERY_MS - 1));
    assert_true(latency_is_due(l, START_MS + LATENCY_EVERY_MS));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void answers_above_target_count_as_late(void **state)
{
    static struct latency l;
    struct control_latency found;
    const char *lines = "100 5\n20000 3\n40000 2\n";
    (void)state;
    assert_true(latency_report(&l, lines, strlen(lines), 1000));
    latency_measure(&l, 99, 1000, &found);
    assert_int_equal(found.answered, 10);
    assert_int_equal(found.late, 0); /* no target */
    l.target_us = 30000;
    assert_true(latency_report(&l, lines, strlen(lines), 2000));
    latency_measure(&l, 99, 2000, &found);
    assert_int_equal(found.answered, 20);
    assert_int_equal(found.late, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(latency_places_have_no_gaps), TEST(percentiles_match_reported_latencies),
        TEST(latencies_expire_with_time),  TEST(malformed_latency_report_changes_nothing),
        TEST(latency_is_due_at_intervals), cmocka_unit_test(answers_above_target_count_as_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
