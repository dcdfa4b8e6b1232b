/* histogram_test: quantiles are within 2 % of the exact quantiles, for times of any size. */
#include "load/histogram.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"

enum { SAMPLES = 20000 };

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void assert_close(int64_t got, int64_t exact)
{
    if (fabs((double)(got - exact)) > 0.02 * (double)exact)
        fail_msg("%lld instead of %lld", (long long)got, (long long)exact);
}

/* `spread`: the times are `least` times up to e^spread. */
static void check_quantiles(uint64_t seed, double least, double spread)
{
    static const double parts[] = {0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1};
    static int64_t times[SAMPLES];
    struct histogram *h = calloc(1, sizeof *h);
    struct rng rng;
    assert_non_null(h);
    rng_seed(&rng, seed);
    for (size_t i = 0; i < SAMPLES; i++) {
        times[i] = (int64_t)(least * exp(spread * rng_double(&rng)));
        histogram_add(h, times[i]);
    }
    qsort(times, SAMPLES, sizeof *times, compare);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t rank = (size_t)ceil(parts[i] * SAMPLES);
        assert_close(histogram_quantile(h, parts[i]), times[rank > 0 ? rank - 1 : 0]);
    }
    assert_int_equal(histogram_quantile(h, 0), times[0]);
    assert_int_equal(histogram_quantile(h, 1), times[SAMPLES - 1]);
    free(h);
}

static void quantiles_are_within_two_percent(void **state)
{
    (void)state;
    check_quantiles(1, 1, 5);      /* nanoseconds */
    check_quantiles(2, 2e4, 2);    /* tens of microseconds */
    check_quantiles(3, 1e6, 9);    /* a millisecond to seconds */
    check_quantiles(4, 1e3, 23);   /* microseconds to hours */
    check_quantiles(5, 5e6, 1e-3); /* all alike */
}

static void buckets_cover_all_times(void **state)
{
    (void)state;
    assert_int_equal(histogram_low(0), 0);
    for (size_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        assert_int_equal(histogram_high(i), histogram_low(i + 1));
        assert_true(histogram_low(i) < histogram_high(i));
    }
    struct histogram *h = calloc(1, sizeof *h);
    assert_non_null(h);
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        histogram_add(h, histogram_low(i));
        histogram_add(h, histogram_high(i) - 1);
        assert_int_equal(h->buckets[i], 2);
    }
    free(h);
}

static void extreme_times_are_clamped(void **state)
{
    (void)state;
    struct histogram *h = calloc(1, sizeof *h);
    assert_non_null(h);
    assert_int_equal(histogram_quantile(h, 0.5), 0);
    histogram_add(h, -5);
    histogram_add(h, INT64_MAX);
    assert_int_equal(h->least_ns, 0);
    assert_int_equal(h->most_ns, ((int64_t)1 << 44) - 1);
    assert_int_equal(h->buckets[HISTOGRAM_BUCKETS - 1], 1);
    free(h);
}

static void merged_histograms_equal_one(void **state)
{
    (void)state;
    struct histogram *parts = calloc(3, sizeof *parts);
    struct rng rng;
    assert_non_null(parts);
    rng_seed(&rng, 6);
    for (size_t i = 0; i < SAMPLES; i++) {
        int64_t ns = (int64_t)rng_below(&rng, 1 << 24);
        histogram_add(&parts[i % 2], ns);
        histogram_add(&parts[2], ns);
    }
    histogram_merge(&parts[0], &parts[1]);
    assert_memory_equal(parts[0].buckets, parts[2].buckets, sizeof parts[0].buckets);
    assert_int_equal(parts[0].count, parts[2].count);
    assert_int_equal(parts[0].least_ns, parts[2].least_ns);
    assert_int_equal(parts[0].most_ns, parts[2].most_ns);
    assert_true(fabs(histogram_mean(&parts[0]) - histogram_mean(&parts[2])) < 1e-3);
    free(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_two_percent),
        cmocka_unit_test(buckets_cover_all_times),
        cmocka_unit_test(extreme_times_are_clamped),
        cmocka_unit_test(merged_histograms_equal_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
