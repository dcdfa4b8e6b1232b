/* The forest, the smooth function and the network on known functions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/forest.h"
#include "learn/mlp.h"
#include "learn/smooth.h"

enum { ROWS = 120, FEATURES = 5, STORED_MAX = 1 << 20 };
static const double constant = 7;

/* Features 0 and 1 matter, 2 is noise, 3 is constant, 4 equals 0. */
struct world {
    double rows[ROWS * FEATURES], targets[ROWS];
    double inverse[ROWS * ROWS];
};

static double step_function(double a, double b)
{
    return (a < 0.5 ? 1 : 3) + (b < 0.3 ? 0 : 0.5);
}

static double slope(double a, double b)
{
    return a * a - b + a * b;
}

static void fill(struct world *w, uint64_t seed, double (*truth)(double, double))
{
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < ROWS; i++) {
        double *row = w->rows + i * FEATURES;
        row[0] = rng_double(&rng);
        row[1] = rng_double(&rng);
        row[2] = rng_double(&rng);
        row[3] = constant;
        row[4] = row[0];
        w->targets[i] = truth(row[0], row[1]);
    }
}

static double error_of_median(double (*truth)(double, double))
{
    static struct world w;
    double sum = 0, error = 0;
    fill(&w, 99, truth);
    for (size_t i = 0; i < ROWS; i++)
        sum += w.targets[i] / ROWS;
    for (size_t i = 0; i < ROWS; i++)
        error += fabs(w.targets[i] - sum) / ROWS;
    return error;
}

static void forest_learns_step_function(void **state)
{
    (void)state;
    static struct world seen, unseen;
    struct forest *f = NULL;
    double error = 0, spread;
    fill(&seen, 1, step_function);
    fill(&unseen, 2, step_function);
    assert_int_equal(forest_train(seen.rows, seen.targets, ROWS, FEATURES, 1, &f), 0);
    for (size_t i = 0; i < ROWS; i++) {
        double answer = forest_predict(f, unseen.rows + i * FEATURES, &spread);
        assert_true(answer >= 1 && answer <= 3.5 && spread >= 0);
        error += fabs(answer - unseen.targets[i]) / ROWS;
    }
    assert_true(error < 0.25 * error_of_median(step_function));
    forest_free(f);
}

/* Trees agree on learnable targets and differ on noise. */
static void forest_spread_grows_with_noise(void **state)
{
    (void)state;
    static struct world w;
    double sure = 0, unsure = 0, spread;
    struct forest *f = NULL;
    fill(&w, 1, step_function);
    assert_int_equal(forest_train(w.rows, w.targets, ROWS, FEATURES, 1, &f), 0);
    for (size_t i = 0; i < ROWS; i++) {
        forest_predict(f, w.rows + i * FEATURES, &spread);
        sure += spread;
    }
    forest_free(f);
    for (size_t i = 0; i < ROWS; i++) /* the same values in other rows */
        w.targets[i] =
            step_function(w.rows[(ROWS - 1 - i) * FEATURES], w.rows[(ROWS - 1 - i) * FEATURES + 1]);
    assert_int_equal(forest_train(w.rows, w.targets, ROWS, FEATURES, 1, &f), 0);
    for (size_t i = 0; i < ROWS; i++) {
        forest_predict(f, w.rows + i * FEATURES, &spread);
        unsure += spread;
    }
    forest_free(f);
    assert_true(sure < 0.7 * unsure);
}

/* A leaf has at least two distinct samples, so three samples cannot be split. */
static void forest_without_splits_predicts_mean(void **state)
{
    (void)state;
    struct forest *f = NULL;
    double spread, rows[3] = {1, 2, 3}, targets[3] = {5, 5, 5};
    assert_int_equal(forest_train(rows, targets, 3, 1, 1, &f), 0);
    assert_true(fabs(forest_predict(f, rows, &spread) - 5) < 1e-12 && spread < 1e-12);
    forest_free(f);
    double same[4] = {1, 1, 1, 1}, four[4] = {1, 2, 3, 4};
    assert_int_equal(forest_train(same, four, 4, 1, 1, &f), 0);
    double answer = forest_predict(f, same, &spread);
    assert_true(answer > 1.5 && answer < 3.5 && spread > 0);
    forest_free(f);
    assert_int_equal(forest_train(rows, targets, 1, 1, 1, &f), 0);
    assert_true(fabs(forest_predict(f, rows, &spread) - 5) < 1e-12);
    forest_free(f);
}

static void smooth_learns_slopes_and_flattens_outside(void **state)
{
    (void)state;
    static struct world seen, unseen;
    struct smooth *s = NULL;
    double error = 0, distance;
    fill(&seen, 1, slope);
    fill(&unseen, 2, slope);
    assert_int_equal(smooth_fit(seen.rows, seen.targets, ROWS, FEATURES, seen.inverse, &s), 0);
    for (size_t i = 0; i < ROWS; i++) {
        const double *row = unseen.rows + i * FEATURES;
        error += fabs(smooth_predict(s, row, &distance) - unseen.targets[i]) / ROWS;
        assert_true(distance < 1);
    }
    assert_true(error < 0.1 * error_of_median(slope));
    assert_true(smooth_outside(s, unseen.rows) < 0.2);
    double far[FEATURES] = {1e6, -1e6, 1e6, constant, 1e6}, farther[FEATURES];
    for (size_t i = 0; i < FEATURES; i++)
        farther[i] = 3 * far[i];
    double at_far = smooth_predict(s, far, &distance);
    assert_true(distance > 1e5 && smooth_outside(s, far) > 1e5);
    assert_true(fabs(at_far - smooth_predict(s, farther, &distance)) < 1e-3);
    smooth_free(s);
}

/* A left-out point has no influence on its own prediction, so the fit with the point is closer to
 * the value. */
static void smooth_left_out_point_errs_more(void **state)
{
    (void)state;
    static struct world w;
    struct smooth *s = NULL;
    double work[4], predictions[2], distance, seen = 0, left_out = 0;
    fill(&w, 3, slope);
    assert_int_equal(smooth_fit(w.rows, w.targets, ROWS, FEATURES, w.inverse, &s), 0);
    for (size_t i = 0; i + 1 < ROWS; i += 2) {
        size_t group[2] = {i, i + 1};
        smooth_leave_out(s, w.inverse, w.targets, group, 2, work, predictions);
        for (size_t k = 0; k < 2; k++) {
            const double *row = w.rows + group[k] * FEATURES;
            seen += fabs(smooth_predict(s, row, &distance) - w.targets[group[k]]);
            left_out += fabs(predictions[k] - w.targets[group[k]]);
            assert_true(smooth_distance(s, i, i) == 0);
        }
    }
    assert_true(seen < left_out);
    assert_true(left_out / ROWS < 0.2 * error_of_median(slope));
    smooth_free(s);
}

static void network_learns_slopes_and_constants(void **state)
{
    (void)state;
    static struct world seen, unseen;
    struct mlp *m = NULL;
    double error = 0;
    fill(&seen, 1, slope);
    fill(&unseen, 2, slope);
    assert_int_equal(mlp_train(seen.rows, seen.targets, ROWS, FEATURES, 1, &m), 0);
    for (size_t i = 0; i < ROWS; i++)
        error += fabs(mlp_predict(m, unseen.rows + i * FEATURES) - unseen.targets[i]) / ROWS;
    assert_true(error < 0.25 * error_of_median(slope));
    mlp_free(m);
    double same[4] = {1, 2, 3, 4}, five[4] = {5, 5, 5, 5};
    assert_int_equal(mlp_train(same, five, 4, 1, 1, &m), 0);
    assert_true(fabs(mlp_predict(m, same) - 5) < 1e-9);
    mlp_free(m);
}

static void save_all(struct str *s, const struct forest *f, const struct smooth *smooth,
                     const struct mlp *m)
{
    size_t start = stored_begin(s, "test", 1);
    forest_save(f, s);
    smooth_save(smooth, s);
    mlp_save(m, s);
    stored_end(s, start);
    assert_false(str_failed(s));
}

static void models_repeat_by_seed_and_reload(void **state)
{
    (void)state;
    static struct world w;
    struct str saved[2];
    struct forest *f = NULL;
    struct smooth *smooth = NULL;
    struct mlp *m = NULL;
    fill(&w, 4, slope);
    for (size_t i = 0; i < 2; i++) {
        str_init(&saved[i], STORED_MAX);
        assert_int_equal(forest_train(w.rows, w.targets, ROWS, FEATURES, 5, &f), 0);
        assert_int_equal(smooth_fit(w.rows, w.targets, ROWS, FEATURES, w.inverse, &smooth), 0);
        assert_int_equal(mlp_train(w.rows, w.targets, ROWS, FEATURES, 5, &m), 0);
        save_all(&saved[i], f, smooth, m);
        if (i == 0) {
            forest_free(f);
            smooth_free(smooth);
            mlp_free(m);
        }
    }
    assert_int_equal(saved[0].length, saved[1].length);
    assert_memory_equal(saved[0].data, saved[1].data, saved[0].length);

    struct stored_reader r;
    uint32_t version;
    double spreads[2];
    assert_int_equal(stored_open(NULL, saved[0].data, saved[0].length, "test", 1, &r, &version), 0);
    struct forest *f_back = forest_load(&r, FEATURES);
    struct smooth *smooth_back = smooth_load(&r, FEATURES);
    struct mlp *m_back = mlp_load(&r, FEATURES);
    assert_int_equal(stored_close(NULL, &r), 0);
    for (size_t i = 0; i < ROWS; i++) {
        const double *row = w.rows + i * FEATURES;
        assert_true(forest_predict(f, row, &spreads[0]) ==
                    forest_predict(f_back, row, &spreads[1]));
        assert_true(spreads[0] == spreads[1]);
        assert_true(smooth_predict(smooth, row, &spreads[0]) ==
                    smooth_predict(smooth_back, row, &spreads[1]));
        assert_true(mlp_predict(m, row) == mlp_predict(m_back, row));
    }
    /* The reader rejects a forest over more features than it has. */
    assert_int_equal(stored_open(NULL, saved[0].data, saved[0].length, "test", 1, &r, &version), 0);
    assert_null(forest_load(&r, 1));
    assert_int_equal(stored_close(NULL, &r), -ERR_CORRUPT);
    forest_free(f);
    forest_free(f_back);
    smooth_free(smooth);
    smooth_free(smooth_back);
    mlp_free(m);
    mlp_free(m_back);
    str_done(&saved[0]);
    str_done(&saved[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forest_learns_step_function),
        cmocka_unit_test(forest_spread_grows_with_noise),
        cmocka_unit_test(forest_without_splits_predicts_mean),
        cmocka_unit_test(smooth_learns_slopes_and_flattens_outside),
        cmocka_unit_test(smooth_left_out_point_errs_more),
        cmocka_unit_test(network_learns_slopes_and_constants),
        cmocka_unit_test(models_repeat_by_seed_and_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
