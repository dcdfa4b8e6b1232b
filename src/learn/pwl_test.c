/* Curves of two pieces: known curves are recovered, and any samples give a valid curve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/pwl.h"

static struct pwl_curve random_curve(struct rng *r)
{
    struct pwl_curve c = {.knee_share = 25 + 50 * rng_double(r),
                          .knee_latency = 5 + 20 * rng_double(r)};
    c.right_slope = -c.knee_latency * 0.004 * rng_double(r);
    c.left_slope = c.right_slope - c.knee_latency * (0.02 + 0.06 * rng_double(r));
    return c;
}

static bool is_legal(const struct pwl_curve *c)
{
    return isfinite(c->knee_share) && isfinite(c->knee_latency) && isfinite(c->left_slope) &&
           c->left_slope <= c->right_slope && c->right_slope <= 0;
}

static void curve_fit_recovers_planted_curve(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 1);
    for (int run = 0; run < 200; run++) {
        struct pwl_curve real = random_curve(&r), found;
        struct pwl_sample samples[8];
        for (size_t i = 0; i < 8; i++) { /* at least two on either side, unordered */
            double share = 8 + 13 * (double)((5 * i) % 8);
            samples[i] = (struct pwl_sample){share, pwl_latency(&real, share)};
        }
        assert_int_equal(pwl_fit(samples, 8, &found), 0);
        for (double share = 8; share <= 99; share += 7)
            assert_true(fabs(pwl_latency(&found, share) / pwl_latency(&real, share) - 1) < 1e-6);
    }
}

static void curve_fit_tolerates_noise(void **state)
{
    (void)state;
    static const double shares[] = {10, 25, 40, 55, 75, 100};
    struct rng r;
    double sum = 0;
    rng_seed(&r, 2);
    for (int run = 0; run < 200; run++) {
        struct pwl_curve real = random_curve(&r), found;
        struct pwl_sample samples[6];
        for (size_t i = 0; i < 6; i++) {
            double noise = 0.03 * sqrt(3) * (2 * rng_double(&r) - 1); /* standard deviation 3 % */
            samples[i] =
                (struct pwl_sample){shares[i], pwl_latency(&real, shares[i]) * (1 + noise)};
        }
        assert_int_equal(pwl_fit(samples, 6, &found), 0);
        assert_true(is_legal(&found));
        for (int share = 10; share <= 100; share++)
            sum += fabs(pwl_latency(&found, share) / pwl_latency(&real, share) - 1) / 91;
    }
    assert_true(sum / 200 <= 0.05);
}

static void curve_from_random_samples_is_legal(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 3);
    for (int run = 0; run < 500; run++) {
        struct pwl_sample samples[PWL_SAMPLES_MAX];
        struct pwl_curve c;
        size_t count = 2 + rng_below(&r, PWL_SAMPLES_MAX - 1);
        for (size_t i = 0; i < count; i++)
            samples[i] =
                (struct pwl_sample){1 + (double)rng_below(&r, 100), exp(10 * rng_double(&r) - 5)};
        samples[0].share_percent = 0.5;
        assert_int_equal(pwl_fit(samples, count, &c), 0);
        assert_true(is_legal(&c));
        for (double share = 1; share <= 100; share += 9) {
            double latency = pwl_latency(&c, share) + 1e-9, least = pwl_share(&c, latency);
            assert_true(least <= share + 1e-6);
            assert_true(pwl_latency(&c, least) <= latency + 1e-6 * fabs(latency));
        }
        assert_true(isinf(pwl_share(&c, pwl_latency(&c, 100) - 1)));
    }
}

static void curve_fit_refuses_invalid_samples(void **state)
{
    (void)state;
    struct pwl_curve c = {.knee_share = 1};
    struct pwl_sample many[PWL_SAMPLES_MAX + 1] = {{10, 1}, {10, 2}};
    assert_int_equal(pwl_fit(many, 0, &c), -ERR_INVALID);
    assert_int_equal(pwl_fit(many, 2, &c), -ERR_INVALID); /* a single share */
    many[1] = (struct pwl_sample){20, -1};
    assert_int_equal(pwl_fit(many, 2, &c), -ERR_INVALID);
    many[1] = (struct pwl_sample){101, 1};
    assert_int_equal(pwl_fit(many, 2, &c), -ERR_INVALID);
    assert_int_equal(pwl_fit(many, PWL_SAMPLES_MAX + 1, &c), -ERR_TOO_LARGE);
    assert_true(c.knee_share == 1);
    many[1] = (struct pwl_sample){20, 3};
    assert_int_equal(pwl_fit(many, 2, &c), 0); /* a rise counts as noise: flat */
    assert_true(c.left_slope == 0 && c.right_slope == 0);
}

static void curve_reloads_or_detects_damage(void **state)
{
    (void)state;
    struct pwl_curve c = {40, 12.5, -0.5, -0.01}, loaded = {0};
    struct str saved;
    str_init(&saved, PWL_STORED_MAX);
    pwl_save(&c, &saved);
    assert_false(str_failed(&saved));
    assert_int_equal(pwl_load(NULL, saved.data, saved.length, &loaded), 0);
    assert_memory_equal(&c, &loaded, sizeof c);
    saved.data[saved.length / 2] ^= 1;
    assert_int_equal(pwl_load(NULL, saved.data, saved.length, &loaded), -ERR_CORRUPT);
    c.right_slope = 1; /* valid frame, invalid curve */
    str_clear(&saved);
    pwl_save(&c, &saved);
    assert_int_equal(pwl_load(NULL, saved.data, saved.length, &loaded), -ERR_CORRUPT);
    str_done(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curve_fit_recovers_planted_curve),
        cmocka_unit_test(curve_fit_tolerates_noise),
        cmocka_unit_test(curve_from_random_samples_is_legal),
        cmocka_unit_test(curve_fit_refuses_invalid_samples),
        cmocka_unit_test(curve_reloads_or_detects_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
