/* The Gaussian process: a posterior computed by another program, the derivatives of the likelihood,
 * the search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/rng.h"
#include "learn/gp_field.h"

static struct gp_kernel kernel_of(double variance, double a, double b, double noise)
{
    return (struct gp_kernel){.variance = variance, .lengths = {a, b}, .noise = noise};
}

static double surface(const double *x)
{
    return sin(x[0]) + 0.3 * x[1] * x[1];
}

static struct gp *sampled(size_t count, double noise, uint64_t seed)
{
    struct rng r;
    struct gp *g = gp_new(2);
    assert_non_null(g);
    rng_seed(&r, seed);
    for (size_t i = 0; i < count; i++) {
        double x[2] = {4 * rng_double(&r) - 2, 4 * rng_double(&r) - 2};
        double wrong = noise * sqrt(12) * (rng_double(&r) - 0.5);
        assert_int_equal(gp_add(g, x, surface(x) + wrong, 0), 0);
    }
    return g;
}

/* Three points, computed by scikit-learn 1.2.1: ConstantKernel(1.3) * Matern([0.7, 1.9], nu=2.5),
 * alpha=0.04, and the log marginal likelihood. */
static void posterior_matches_scikit_learn(void **state)
{
    (void)state;
    static const double points[3][2] = {{0, 0}, {1, 0.5}, {-0.5, 2}}, values[3] = {0.2, -0.4, 1.1};
    static const double at[2][2] = {{0.4, 0.3}, {3, -2}};
    static const double means[2] = {-0.0547794517188813, -0.00977658095721078},
                        deviations[2] = {0.589220690411673, 1.13990672850384};
    struct gp *g = gp_new(2);
    struct gp_kernel kernel = kernel_of(1.3, 0.7, 1.9, 0.04);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gp_add(g, points[i], values[i], 0), 0);
    assert_int_equal(gp_condition(g, &kernel), 0);
    for (size_t i = 0; i < 2; i++) {
        double mean, variance;
        gp_predict(g, at[i], &mean, &variance);
        assert_true(fabs(mean - means[i]) < 1e-9);
        assert_true(fabs(sqrt(variance) - deviations[i]) < 1e-9);
    }
    assert_true(fabs(gp_likelihood(g, &kernel, NULL) + 3.62410696327761) < 1e-9);
    gp_free(g);
}

static void likelihood_gradient_matches_finite_differences(void **state)
{
    (void)state;
    struct gp *g = sampled(23, 0.1, 5);
    double extra[2] = {0.1, 0.2};
    assert_int_equal(gp_add(g, extra, 1, 0.3), 0);
    struct gp_kernel kernel = kernel_of(0.8, 0.9, 2.3, 0.02);
    double gradient[GP_HYPER_MAX];
    (void)gp_likelihood(g, &kernel, gradient);
    double *parts[4] = {&kernel.variance, &kernel.lengths[0], &kernel.lengths[1], &kernel.noise};
    for (size_t i = 0; i < 4; i++) {
        const double h = 1e-5;
        double real = *parts[i];
        *parts[i] = real * exp(h);
        double above = gp_likelihood(g, &kernel, NULL);
        *parts[i] = real * exp(-h);
        double below = gp_likelihood(g, &kernel, NULL);
        *parts[i] = real;
        assert_true(fabs((above - below) / (2 * h) - gradient[i]) < 1e-5 * (1 + fabs(gradient[i])));
    }
    gp_free(g);
}

static void kernel_search_improves_on_every_start(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct gp *g = sampled(50, 0.05, seed);
        struct gp_kernel starts[2] = {kernel_of(1, 1, 1, 0.1), kernel_of(5, 0.3, 6, 1e-3)}, found;
        struct gp_search search = {.lower = kernel_of(1e-3, 0.05, 0.05, 1e-6),
                                   .upper = kernel_of(1e3, 50, 50, 10),
                                   .starts = starts,
                                   .start_count = 2,
                                   .value_tolerance = 2.2e-9,
                                   .gradient_tolerance = 1e-5,
                                   .calls_max = 1000};
        double best = gp_learn(g, &search, &found), gradient[GP_HYPER_MAX], mean, variance;
        for (size_t i = 0; i < 2; i++)
            assert_true(best > gp_likelihood(g, &starts[i], NULL));
        assert_true(fabs(gp_likelihood(g, &found, gradient) - best) < 1e-6);
        for (size_t i = 0; i < 4; i++) /* an optimum inside the bounds has no gradient */
            assert_true(fabs(gradient[i]) < 0.02);
        double x[2] = {0.3, -0.4};
        gp_predict(g, x, &mean, &variance);
        assert_true(fabs(mean - surface(x)) < 0.1);
        gp_free(g);
    }
}

static void kernel_search_stays_within_bounds(void **state)
{
    (void)state;
    struct gp *g = sampled(30, 0.05, 9);
    struct gp_kernel start = kernel_of(1, 1, 1, 1), found;
    struct gp_search search = {.lower = kernel_of(0.5, 3, 0.1, 0.5),
                               .upper = kernel_of(2, 4, 0.2, 2),
                               .starts = &start,
                               .start_count = 1,
                               .value_tolerance = 1e-9,
                               .gradient_tolerance = 1e-5,
                               .calls_max = 200};
    (void)gp_learn(g, &search, &found);
    assert_true(found.variance >= 0.5 - 1e-12 && found.variance <= 2 + 1e-12);
    assert_true(found.lengths[0] >= 3 - 1e-12 && found.lengths[0] <= 4 + 1e-12);
    assert_true(found.lengths[1] >= 0.1 - 1e-12 && found.lengths[1] <= 0.2 + 1e-12);
    assert_true(found.noise >= 0.5 - 1e-12 && found.noise <= 2 + 1e-12);
    gp_free(g);
}

static void posterior_without_data_equals_prior(void **state)
{
    (void)state;
    struct gp *g = sampled(GP_POINTS_MAX, 0.05, 3);
    struct gp_kernel kernel = kernel_of(2, 1, 1.5, 1e-4);
    struct rng r;
    double x[2] = {100, 100}, mean, variance;
    gp_predict(g, x, &mean, &variance); /* before the first gp_condition() */
    assert_true(mean == 0 && variance == 1);
    assert_int_equal(gp_add(g, x, 0, 0), -ERR_TOO_LARGE);
    assert_int_equal(gp_condition(g, &kernel), 0);
    gp_predict(g, x, &mean, &variance); /* far from the points the prior remains */
    assert_true(fabs(mean) < 1e-9 && fabs(variance - 2) < 1e-9);
    rng_seed(&r, 3);
    for (size_t i = 0; i < 500; i++) {
        double at[2] = {6 * rng_double(&r) - 3, 6 * rng_double(&r) - 3};
        gp_predict(g, at, &mean, &variance);
        assert_true(variance >= 0 && variance <= 2);
    }
    gp_clear(g);
    for (size_t i = 0; i < 2; i++) /* the same point twice, without noise */
        assert_int_equal(gp_add(g, x, 1, 0), 0);
    kernel.noise = 0;
    kernel.variance = 1;
    assert_int_equal(gp_condition(g, &kernel), -ERR_INVALID);
    assert_true(isinf(gp_likelihood(g, &kernel, NULL)));
    gp_predict(g, x, &mean, &variance);
    assert_true(mean == 0 && variance == 1);
    gp_free(g);
}

/* Points added one by one, places added later, another kernel, other values. */
static void field_matches_direct_prediction(void **state)
{
    (void)state;
    enum { PLACES = 37 };
    struct gp *g = gp_new(2);
    struct gp_field *f = gp_field_new(2, PLACES);
    struct gp_kernel kernel = kernel_of(1.5, 1, 2, 0.01);
    double places[PLACES][2];
    size_t place_count = 0;
    struct rng r;
    assert_true(g && f);
    rng_seed(&r, 8);
    for (size_t round = 0; round < 20; round++) {
        for (size_t more = 0; more < 3 && place_count < PLACES; more++) {
            double *x = places[place_count++];
            x[0] = 4 * rng_double(&r) - 2;
            x[1] = 4 * rng_double(&r) - 2;
            gp_field_add(f, x);
        }
        if (round == 12)
            kernel.lengths[1] = 0.7;
        gp_clear(g);
        for (size_t i = 0; i <= round; i++) {
            double x[2] = {sin((double)(3 * i)), cos((double)(5 * i))};
            if (round == 16 && i == 4)
                x[0] = 0; /* replaces an old point */
            assert_int_equal(gp_add(g, x, surface(x) + 0.1 * (double)round, i == 2 ? 0.2 : 0), 0);
        }
        assert_int_equal(gp_condition(g, &kernel), 0);
        gp_field_update(f, g);
        for (size_t i = 0; i < place_count; i++) {
            double mean, variance, field_mean, field_variance;
            gp_predict(g, places[i], &mean, &variance);
            gp_field_at(f, i, &field_mean, &field_variance);
            assert_true(fabs(mean - field_mean) < 1e-9);
            assert_true(fabs(variance - field_variance) < 1e-9);
        }
    }
    gp_free(g);
    gp_field_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posterior_matches_scikit_learn),
        cmocka_unit_test(likelihood_gradient_matches_finite_differences),
        cmocka_unit_test(kernel_search_improves_on_every_start),
        cmocka_unit_test(kernel_search_stays_within_bounds),
        cmocka_unit_test(posterior_without_data_equals_prior),
        cmocka_unit_test(field_matches_direct_prediction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
