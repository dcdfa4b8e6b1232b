/* The formulas for degradation, noise scale and learning rate, checked against their meaning. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "learn/degradation.h"

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fmax(1, fabs(b)));
}

static void degradation_at_reference_equals_slowdown(void **state)
{
    (void)state;
    for (double noise = 0; noise < 1e6; noise = 2 * noise + 1) {
        struct degradation_run run = {.batch_reference = 64,
                                      .batch = 64,
                                      .time_reference = 3,
                                      .time_beside = 3,
                                      .noise_scale = noise};
        assert_near(degradation(&run), 1);
        run.time_beside = 6;
        assert_near(degradation(&run), 2);
    }
}

/* Twice the batch in the same time gains nothing without gradient noise, and halves the time with
 * much noise. */
static void larger_batch_gain_grows_with_noise(void **state)
{
    (void)state;
    struct degradation_run run = {
        .batch_reference = 64, .batch = 128, .time_reference = 1, .time_beside = 1};
    assert_near(degradation(&run), 1);
    run.noise_scale = 1e12;
    assert_true(fabs(degradation(&run) - 0.5) < 1e-6);
    double before = 1;
    for (double noise = 1; noise < 1e6; noise *= 2) {
        run.noise_scale = noise;
        double now = degradation(&run);
        assert_true(now < before && now > 0.5);
        before = now;
    }
}

/* |G|² = 1 and trace S: a gradient of b samples has the expected square 1 + S/b. */
static void noise_scale_is_estimated_from_gradients(void **state)
{
    (void)state;
    struct noise_scale n = {0};
    double found = -1;
    const double s = 200, part = 32, batch = 64;
    for (int i = 0; i < NOISE_SCALE_SAMPLES_MIN; i++) {
        assert_false(noise_scale_get(&n, batch, &found));
        double wobble = i % 2 == 0 ? 1.1 : 0.9; /* factor of all gradients of a step */
        noise_scale_observe(&n, part, batch, wobble * (1 + s / part), wobble * (1 + s / batch));
    }
    assert_true(noise_scale_get(&n, batch, &found));
    assert_true(fabs(found - s) < 1e-6 * s);
    noise_scale_observe(&n, part, batch, INFINITY, 1);
    noise_scale_observe(&n, part, batch, 1, NAN);
    assert_int_equal(n.samples, NOISE_SCALE_SAMPLES_MIN);
}

/* If |G|² is indistinguishable from 0, the noise scale is large, not small. */
static void noise_scale_without_signal_is_large(void **state)
{
    (void)state;
    struct noise_scale n = {0};
    double found;
    for (int i = 0; i < NOISE_SCALE_SAMPLES_MIN; i++)
        noise_scale_observe(&n, 32, 64, 2, 1);
    assert_true(noise_scale_get(&n, 64, &found));
    assert_near(found, 64000);
}

static void noise_scale_period_bounds_cost(void **state)
{
    (void)state;
    assert_int_equal(noise_scale_period(1.05, 1), 20);
    assert_int_equal(noise_scale_period(0.9, 1), 20);
    assert_int_equal(noise_scale_period(1.995, 1), 100);
    assert_true(noise_scale_period(1, 0) >= 20);
}

static void learning_rate_gain_follows_scaling_rule(void **state)
{
    (void)state;
    assert_near(learning_rate_gain(LEARNING_RATE_NONE, 10, 64, 256), 1);
    assert_near(learning_rate_gain(LEARNING_RATE_LINEAR, 10, 64, 256), 4);
    assert_near(learning_rate_gain(LEARNING_RATE_SQRT, 10, 64, 256), 2);
    assert_near(learning_rate_gain(LEARNING_RATE_ADASCALE, 0, 64, 256), 1);
    assert_true(fabs(learning_rate_gain(LEARNING_RATE_ADASCALE, 1e12, 64, 256) - 4) < 1e-6);
    /* AdaScale's gain is the progress of a step: the batch times its efficiency. */
    assert_near(learning_rate_gain(LEARNING_RATE_ADASCALE, 300, 64, 256),
                4 * degradation_efficiency(300, 64, 256));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degradation_at_reference_equals_slowdown),
        cmocka_unit_test(larger_batch_gain_grows_with_noise),
        cmocka_unit_test(noise_scale_is_estimated_from_gradients),
        cmocka_unit_test(noise_scale_without_signal_is_large),
        cmocka_unit_test(noise_scale_period_bounds_cost),
        cmocka_unit_test(learning_rate_gain_follows_scaling_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
