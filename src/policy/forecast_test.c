#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "policy/forecast.h"

/* Kind k uses k / 10 of the device; usage above the whole device slows all members. */
static void together(void *context, const struct forecast_set *set,
                     struct forecast_answer *ret_answer)
{
    double sum = 0;
    (void)context;
    for (size_t i = 0; i < set->count; i++)
        sum += set->kinds[i] / 10.0;
    for (size_t i = 0; i < set->count; i++) {
        ret_answer->pd[i] = fmax(1, sum) + 0.01 * (double)(set->count - 1) * set->kinds[i];
        ret_answer->p99_ms[i] = 0;
        ret_answer->is_p99_guess[i] = false;
    }
}

static const struct forecast world = {.together = together};

/* Computes the same sum by small steps of time. */
static double walk(const struct forecast_set *set, const double *remaining_ms, double step_ms,
                   double *ret_first_ms)
{
    struct forecast_set now = *set;
    double left[FORECAST_MEMBERS_MAX], sum = 0;
    *ret_first_ms = INFINITY;
    memcpy(left, remaining_ms, set->count * sizeof left[0]);
    for (double clock = 0;; clock += step_ms) {
        struct forecast_answer answer;
        bool finite = false;
        for (size_t i = now.count; i-- > 0;)
            if (left[i] <= 0) {
                sum += clock;
                *ret_first_ms = fmin(*ret_first_ms, clock);
                forecast_set_remove(&now, i);
                memmove(&left[i], &left[i + 1], (now.count - i) * sizeof left[0]);
            }
        together(NULL, &now, &answer);
        for (size_t i = 0; i < now.count; i++) {
            left[i] -= step_ms / answer.pd[i];
            finite = finite || isfinite(left[i]);
        }
        if (!finite)
            return sum;
    }
}

static void finish_sum_matches_time_simulation(void **state)
{
    struct rng rng;
    (void)state;
    rng_seed(&rng, 5);
    for (int round = 0; round < 300; round++) {
        struct forecast_set set = {0};
        double remaining_ms[FORECAST_MEMBERS_MAX], first, first_walked;
        size_t count = rng_below(&rng, 5);
        for (size_t i = 0; i < count; i++) {
            (void)forecast_set_add(&set, (uint32_t)rng_below(&rng, 9));
            remaining_ms[i] = rng_below(&rng, 8) == 0 ? INFINITY : 100 * rng_double(&rng);
        }
        double sum = forecast_finish_sum(&world, &set, remaining_ms, &first);
        double walked = walk(&set, remaining_ms, 0.05, &first_walked);
        /* Error bound: a step for each member, and for each slowdown in the meantime. */
        assert_true(fabs(sum - walked) <= 0.05 * (double)(count * count) * 5);
        assert_true(isinf(first) ? isinf(first_walked) : fabs(first - first_walked) <= 0.06);
    }
}

static void finish_sum_matches_known_cases(void **state)
{
    (void)state;
    struct forecast_set set = {0};
    assert_true(forecast_finish_sum(&world, &set, NULL, NULL) == 0);
    (void)forecast_set_add(&set, 3);
    assert_true(forecast_finish_sum(&world, &set, (double[]){500}, NULL) == 500);
    assert_true(forecast_finish_sum(&world, &set, (double[]){INFINITY}, NULL) == 0);
    /* 9 and 3 together: PD 1.2 + 0.09 and 1.2 + 0.03, then the longer one alone. */
    (void)forecast_set_add(&set, 9);
    double both = forecast_finish_sum(&world, &set, (double[]){100, 200}, NULL);
    assert_true(fabs(both - (123 + 123 + 200 - 123 / 1.29)) < 1e-9);
}

static void forecast_set_stays_sorted(void **state)
{
    struct forecast_set set = {0};
    (void)state;
    assert_int_equal(forecast_set_add(&set, 5), 0);
    assert_int_equal(forecast_set_add(&set, 2), 0);
    assert_int_equal(forecast_set_add(&set, 9), 2);
    assert_int_equal(forecast_set_add(&set, 5), 2);
    assert_int_equal(set.count, 4);
    forecast_set_remove(&set, 1);
    assert_int_equal(set.kinds[0], 2);
    assert_int_equal(set.kinds[1], 5);
    assert_int_equal(set.kinds[2], 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finish_sum_matches_time_simulation),
        cmocka_unit_test(finish_sum_matches_known_cases),
        cmocka_unit_test(forecast_set_stays_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
