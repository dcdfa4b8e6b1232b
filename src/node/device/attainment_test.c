#include "node/device/attainment.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MINUTE = 60 * 1000, LOOK = 200, START = 1000 * MINUTE };

static struct attempt_control read_at(const struct attainment *a, int64_t now_ms)
{
    struct attempt_control c = {0};
    attainment_read(a, now_ms, &c);
    return c;
}

static void expect_count(struct attainment_count count, uint64_t answered, uint64_t late)
{
    assert_int_equal(count.answered, answered);
    assert_int_equal(count.late, late);
}

/* Adds one answer at each look; in each minute the first `late` answers are late. */
static int64_t serve(struct attainment *a, int64_t now_ms, int64_t ms, int late)
{
    for (int64_t end = now_ms + ms; now_ms < end; now_ms += LOOK)
        attainment_add(a, now_ms, 1, now_ms % MINUTE < (int64_t)late * LOOK);
    return now_ms;
}

static void empty_counts_are_zero(void **state)
{
    (void)state;
    struct attainment a = {0};
    struct attempt_control c = read_at(&a, START);
    expect_count(c.all, 0, 0);
    expect_count(c.hour, 0, 0);
    assert_int_equal(c.minute_count, 0);
}

static void first_count_has_no_time(void **state)
{
    (void)state;
    struct attainment a = {0};
    attainment_add(&a, START, 1000000, 70);
    attainment_add(&a, START + LOOK, 5, 1);
    struct attempt_control c = read_at(&a, START + LOOK);
    expect_count(c.all, 1000005, 71);
    expect_count(c.minute, 5, 1);
    expect_count(c.hour, 5, 1);
    assert_int_equal(c.minute_count, 1);
    assert_int_equal(c.minutes_answered[0], 5);
    assert_int_equal(c.minutes_late[0], 1);
}

static void counts_of_periods_add_up(void **state)
{
    (void)state;
    struct attainment a = {0};
    attainment_add(&a, START - 1, 0, 0);
    int64_t now_ms = serve(&a, START, 90 * MINUTE, 3);
    struct attempt_control c = read_at(&a, now_ms - 1);
    const uint64_t each = MINUTE / LOOK;
    expect_count(c.minute, each, 3);
    expect_count(c.ten_minutes, 10 * each, 30);
    expect_count(c.hour, 60 * each, 180);
    expect_count(c.all, 90 * each, 270);
    assert_int_equal(c.minute_count, ATTAINMENT_MINUTES);
    for (int i = 0; i < c.minute_count; i++) {
        assert_int_equal(c.minutes_answered[i], each);
        assert_int_equal(c.minutes_late[i], 3);
    }
}

static void silence_empties_periods(void **state)
{
    (void)state;
    struct attainment a = {0};
    attainment_add(&a, START - 1, 0, 0);
    int64_t now_ms = serve(&a, START, 2 * MINUTE, 1);
    struct attempt_control c = read_at(&a, now_ms + 2 * MINUTE);
    expect_count(c.minute, 0, 0);
    expect_count(c.ten_minutes, 600, 2);
    c = read_at(&a, now_ms + 30 * MINUTE);
    expect_count(c.ten_minutes, 0, 0);
    expect_count(c.hour, 600, 2);
    c = read_at(&a, now_ms + 600 * MINUTE);
    expect_count(c.hour, 0, 0);
    expect_count(c.all, 600, 2);
    assert_int_equal(c.minutes_answered[ATTAINMENT_MINUTES - 1], 0);
}

static void counts_saturate(void **state)
{
    (void)state;
    struct attainment a = {0};
    attainment_add(&a, START, 0, 0);
    attainment_add(&a, START + LOOK, UINT64_MAX, UINT64_MAX);
    attainment_add(&a, START + LOOK, UINT64_MAX, 5);
    attainment_add(&a, START + LOOK, 1, 9);
    struct attempt_control c = read_at(&a, START + LOOK);
    expect_count(c.all, UINT64_MAX, UINT64_MAX);
    expect_count(c.minute, UINT32_MAX, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_counts_are_zero),    cmocka_unit_test(first_count_has_no_time),
        cmocka_unit_test(counts_of_periods_add_up), cmocka_unit_test(silence_empties_periods),
        cmocka_unit_test(counts_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
