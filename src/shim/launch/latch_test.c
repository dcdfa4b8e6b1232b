/* The latch, by itself: looks that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "shim/launch/latch.h"

enum { US = 1000, MS = 1000 * US };

static const struct latch_terms usual = {
    .most_ns = 20 * MS, .short_ns = 2 * MS, .linger_ns = 0, .pass_ns = 100 * US};

/* A look at `us`, with one service that is busy or not and has such a sum of marks. */
static enum latch_turn look(struct latch *latch, const struct latch_terms *terms, uint64_t us,
                            bool is_busy, uint64_t sum)
{
    const struct latch_look look = {.now_ns = us * US, .view = {.busy = is_busy, .sum = sum}};
    return latch_take(latch, terms, &look);
}

static void latch_shuts_while_service_is_busy(void **state)
{
    struct latch latch = {0};
    (void)state;
    assert_int_equal(look(&latch, &usual, 10, false, 5), LATCH_STAYS);
    assert_false(latch.is_shut);
    assert_int_equal(look(&latch, &usual, 20, true, 6), LATCH_SHUTS);
    assert_true(latch.is_shut);
    assert_int_equal(look(&latch, &usual, 30, true, 6), LATCH_STAYS);
    assert_int_equal(look(&latch, &usual, 19000, true, 7), LATCH_STAYS);
    assert_int_equal(look(&latch, &usual, 19010, false, 9), LATCH_OPENS);
    assert_false(latch.is_shut);
    /* It came and went between two looks: without a linger that is past. */
    assert_int_equal(look(&latch, &usual, 19020, false, 13), LATCH_STAYS);
}

static void latch_lingers_before_opening(void **state)
{
    struct latch_terms terms = usual;
    struct latch latch = {0};
    (void)state;
    terms.linger_ns = 100 * US;
    assert_int_equal(look(&latch, &terms, 10, false, 5), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 20, true, 6), LATCH_SHUTS);
    assert_int_equal(look(&latch, &terms, 30, false, 7), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 110, true, 8), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 120, false, 9), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 209, false, 9), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 210, false, 9), LATCH_OPENS);
    assert_int_equal(look(&latch, &terms, 300, false, 9), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 310, false, 13), LATCH_SHUTS);
    assert_int_equal(look(&latch, &terms, 410, false, 13), LATCH_OPENS);
}

/* Work before the first look says nothing about the present. */
static void first_look_does_not_shut_latch(void **state)
{
    struct latch_terms terms = usual;
    struct latch latch = {0};
    (void)state;
    terms.linger_ns = 100 * US;
    assert_int_equal(look(&latch, &terms, 10, false, 500), LATCH_STAYS);
}

static void latch_passes_after_longest_hold(void **state)
{
    struct latch latch = {0};
    (void)state;
    assert_int_equal(look(&latch, &usual, 1, true, 6), LATCH_SHUTS);
    assert_int_equal(look(&latch, &usual, 20000, true, 7), LATCH_STAYS);
    assert_int_equal(look(&latch, &usual, 20001, true, 7), LATCH_PASSES);
    assert_false(latch.is_shut);
    /* Some work goes by, however busy the service; then the same again. */
    assert_int_equal(look(&latch, &usual, 20100, true, 8), LATCH_STAYS);
    assert_int_equal(look(&latch, &usual, 20101, true, 8), LATCH_SHUTS);
    assert_int_equal(look(&latch, &usual, 40101, true, 9), LATCH_PASSES);
    /* Once it is idle, nothing of the pass is left. */
    assert_int_equal(look(&latch, &usual, 40301, false, 9), LATCH_STAYS);
    assert_int_equal(look(&latch, &usual, 40302, true, 10), LATCH_SHUTS);
}

/* The service is idle at the end of the longest hold: the latch opens, which is no pass. */
static void linger_at_longest_hold_opens_latch(void **state)
{
    struct latch_terms terms = usual;
    struct latch latch = {0};
    (void)state;
    terms.linger_ns = 5 * MS;
    assert_int_equal(look(&latch, &terms, 1, true, 6), LATCH_SHUTS);
    assert_int_equal(look(&latch, &terms, 19000, true, 6), LATCH_STAYS);
    assert_int_equal(look(&latch, &terms, 20001, false, 7), LATCH_OPENS);
}

static void collective_shortens_latch_hold(void **state)
{
    struct latch latch = {0};
    struct latch_look at = {.now_ns = 1 * US, .view = {.busy = 1, .sum = 6}, .is_short = true};
    struct latch_terms terms = usual;
    (void)state;
    assert_int_equal(latch_take(&latch, &usual, &at), LATCH_SHUTS);
    at.now_ns = 2000 * US;
    assert_int_equal(latch_take(&latch, &usual, &at), LATCH_STAYS);
    at.now_ns = 2001 * US;
    assert_int_equal(latch_take(&latch, &usual, &at), LATCH_PASSES);
    /* It never makes a hold longer. */
    terms.most_ns = 1 * MS;
    latch = (struct latch){0};
    at.now_ns = 0;
    assert_int_equal(latch_take(&latch, &terms, &at), LATCH_SHUTS);
    at.now_ns = 1000 * US;
    assert_int_equal(latch_take(&latch, &terms, &at), LATCH_PASSES);
}

static void held_latch_stays_shut(void **state)
{
    struct latch latch = {0};
    struct latch_look held = {.now_ns = 10 * US, .is_held = true};
    (void)state;
    assert_int_equal(latch_take(&latch, &usual, &held), LATCH_SHUTS);
    held.now_ns += 600 * usual.most_ns;
    held.view.busy = 1;
    held.is_short = true;
    assert_int_equal(latch_take(&latch, &usual, &held), LATCH_STAYS);
    held = (struct latch_look){.now_ns = held.now_ns + US};
    assert_int_equal(latch_take(&latch, &usual, &held), LATCH_OPENS);
    /* A pass ends when the hold begins. */
    assert_int_equal(look(&latch, &usual, 30 * MS, true, 1), LATCH_SHUTS);
    assert_int_equal(look(&latch, &usual, 60 * MS, true, 1), LATCH_PASSES);
    held = (struct latch_look){.now_ns = UINT64_C(60000001), .is_held = true};
    assert_int_equal(latch_take(&latch, &usual, &held), LATCH_SHUTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latch_shuts_while_service_is_busy),
        cmocka_unit_test(latch_lingers_before_opening),
        cmocka_unit_test(first_look_does_not_shut_latch),
        cmocka_unit_test(latch_passes_after_longest_hold),
        cmocka_unit_test(linger_at_longest_hold_opens_latch),
        cmocka_unit_test(collective_shortens_latch_hold),
        cmocka_unit_test(held_latch_stays_shut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
