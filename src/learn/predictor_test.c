/* The predictor in simulated worlds with known interference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/order.h"
#include "learn/predictor.h"

enum { MODELS = 9, PAIRS = MODELS * MODELS };

struct world {
    struct task_profile models[MODELS];
    double interference[MODELS][MODELS];
};

/* Makes a world whose interference follows from the features, or is a property of the pair that the
 * features do not show. */
static void make_world(struct world *w, uint64_t seed, bool features_tell)
{
    struct rng rng;
    rng_seed(&rng, seed);
    *w = (struct world){0};
    for (size_t i = 0; i < MODELS; i++)
        w->models[i] = (struct task_profile){
            .family = 1 + i,
            .sm_activity = 0.05 + 0.9 * (double)i / MODELS,
            .dram_rate = 0.5 * rng_double(&rng),
            .busy = rng_double(&rng),
            .iteration_ms = 5 + 100 * rng_double(&rng),
            .parameters = 1e6 + 1e8 * rng_double(&rng),
            .share = 1,
        };
    for (size_t i = 0; i < MODELS; i++)
        for (size_t j = 0; j < MODELS; j++) {
            double sm = w->models[i].sm_activity + w->models[j].sm_activity;
            w->interference[i][j] = features_tell ? 1 + sm * sm * (0.98 + 0.04 * rng_double(&rng))
                                                  : 1 + 3 * rng_double(&rng) * rng_double(&rng);
        }
}

static bool is_held_out_pair(size_t i, size_t j)
{
    return (i + j) % 4 == 1;
}

/* Trains on three quarters of the pairs, or on all pairs without one model. */
static struct predictor *train(const struct world *w, size_t without_model, struct observations *o,
                               enum predictor_learners learners)
{
    struct predictor *p = NULL;
    for (size_t i = 0; i < MODELS; i++)
        for (size_t j = 0; j < MODELS; j++) {
            bool seen = without_model < MODELS ? i != without_model && j != without_model
                                               : !is_held_out_pair(i, j);
            if (seen)
                assert_int_equal(
                    observations_add(o, &w->models[i], &w->models[j], 1, w->interference[i][j]), 0);
        }
    assert_int_equal(predictor_train(o, learners, 1, &p), 0);
    return p;
}

static double median_of(const struct observations *o)
{
    double values[PAIRS];
    size_t count = observations_count(o);
    for (size_t i = 0; i < count; i++)
        values[i] = observations_at(o, i)->log_interference;
    return exp(order_median(values, count));
}

static double ask(const struct world *w, const struct predictor *p, const struct observations *o,
                  size_t i, size_t j, struct prediction *ret)
{
    predictor_predict(p, o, &w->models[i], &w->models[j], 1, ret);
    return fabs(ret->interference / w->interference[i][j] - 1);
}

static void unseen_pair_prediction_beats_median(void **state)
{
    (void)state;
    struct world w;
    for (int both = 0; both < 2; both++) {
        make_world(&w, 1, true);
        struct observations *o = observations_new(1);
        struct predictor *p =
            train(&w, MODELS, o, both ? PREDICTOR_FOREST_OR_NETWORK : PREDICTOR_FOREST_ALONE);
        double median = median_of(o), error = 0, of_median = 0;
        for (size_t i = 0; i < MODELS; i++)
            for (size_t j = 0; j < MODELS; j++) {
                struct prediction one;
                double off = ask(&w, p, o, i, j, &one);
                if (!is_held_out_pair(i, j))
                    continue;
                error += off;
                of_median += fabs(median / w.interference[i][j] - 1);
                assert_true(one.source == PREDICTOR_FOREST ||
                            (both && one.source == PREDICTOR_NETWORK));
                assert_true(one.spread >= 0 && one.spread < 1);
            }
        assert_true(error < 0.3 * of_median);
        predictor_free(p);
        observations_free(o);
    }
}

/* An unmeasured task gets a guess if features are informative, else the median. */
static void unseen_task_gets_guess_or_median(void **state)
{
    (void)state;
    struct world w;
    for (int tell = 0; tell < 2; tell++) {
        double error = 0, of_median = 0;
        make_world(&w, 2, tell == 1);
        for (size_t model = 0; model < MODELS; model++) {
            struct observations *o = observations_new(1);
            struct predictor *p = train(&w, model, o, PREDICTOR_FOREST_ALONE);
            double median = median_of(o);
            for (size_t j = 0; j < MODELS; j++) {
                struct prediction one;
                error += ask(&w, p, o, model, j, &one) + ask(&w, p, o, j, model, &one);
                assert_true(one.source == PREDICTOR_GUESS || one.source == PREDICTOR_MEDIAN);
                of_median += fabs(median / w.interference[model][j] - 1) +
                             fabs(median / w.interference[j][model] - 1);
            }
            predictor_free(p);
            observations_free(o);
        }
        assert_true(error < (tell ? 0.6 : 1.05) * of_median);
    }
}

static void profile_far_outside_gets_median(void **state)
{
    (void)state;
    struct world w;
    struct prediction one;
    make_world(&w, 3, true);
    struct observations *o = observations_new(1);
    struct predictor *p = train(&w, MODELS, o, PREDICTOR_FOREST_ALONE);
    struct task_profile far = w.models[0];
    far.iteration_ms = 1e12;
    for (int known = 0; known < 2; known++) {
        far.family = known ? 1 : 777;
        predictor_predict(p, o, &far, &w.models[1], 1, &one);
        assert_int_equal(one.source, PREDICTOR_MEDIAN);
        assert_true(fabs(one.interference / median_of(o) - 1) < 1e-12);
    }
    predictor_free(p);
    observations_free(o);
}

static void prediction_source_follows_available_data(void **state)
{
    (void)state;
    struct prediction one;
    struct task_profile tasks[3] = {{.family = 1, .sm_activity = 0.6, .dram_rate = 0.1},
                                    {.family = 2, .sm_activity = 0.3, .dram_rate = 0.2},
                                    {.family = 3, .sm_activity = 0.4, .dram_rate = 1.2}};
    predictor_predict(NULL, NULL, &tasks[0], NULL, 0, &one);
    assert_true(one.interference == 1 && one.source == PREDICTOR_ALONE);
    predictor_predict(NULL, NULL, &tasks[0], &tasks[1], 1, &one);
    assert_true(one.interference == 1 && one.source == PREDICTOR_COLD);
    predictor_predict(NULL, NULL, &tasks[0], &tasks[1], 2, &one);
    assert_true(fabs(one.interference - 1.5) < 1e-12);

    struct observations *o = observations_new(1);
    struct predictor *p = NULL;
    for (int i = 0; i < OBSERVATIONS_PATTERN_MIN; i++) {
        predictor_predict(NULL, o, &tasks[0], &tasks[1], 1, &one);
        assert_int_equal(one.source, PREDICTOR_COLD);
        assert_int_equal(observations_add(o, &tasks[0], &tasks[1], 1, i == 1 ? 4 : 2), 0);
    }
    assert_int_equal(predictor_train(o, PREDICTOR_FOREST_ALONE, 1, &p), -ERR_UNAVAILABLE);
    struct task_profile again = tasks[0];
    again.sm_activity += 1e-4;
    predictor_predict(NULL, o, &again, &tasks[1], 1, &one);
    assert_int_equal(one.source, PREDICTOR_PATTERN);
    assert_true(fabs(one.interference - exp2(4.0 / 3)) < 1e-12 && one.spread > 0);
    assert_int_equal(observations_add(o, &tasks[0], &tasks[1], 1, 0), -ERR_INVALID);
    assert_int_equal(observations_add(o, &tasks[0], &tasks[1], 1, NAN), -ERR_INVALID);
    again.sm_activity = INFINITY;
    assert_int_equal(observations_add(o, &again, &tasks[1], 1, 1), -ERR_INVALID);
    assert_int_equal(observations_count(o), OBSERVATIONS_PATTERN_MIN);
    observations_free(o);
}

/* Without a model, measurements correct the formula, with more weight the more there are. */
static void first_measurements_correct_cold_formula(void **state)
{
    (void)state;
    struct prediction one;
    struct task_profile tasks[3] = {{.family = 1, .sm_activity = 0.6},
                                    {.family = 2, .sm_activity = 0.3},
                                    {.family = 3, .sm_activity = 0.2}};
    struct observations *o = observations_new(1);
    double before = 1;
    for (int i = 0; i < PREDICTOR_OBSERVATIONS_MIN; i++) {
        assert_int_equal(observations_add(o, &tasks[0], &tasks[1], 1, 2), 0);
        predictor_predict(NULL, o, &tasks[1], &tasks[2], 1, &one);
        assert_true(one.source == PREDICTOR_COLD && one.interference > before);
        before = one.interference;
    }
    assert_true(before > 1.7 && before < 2);
    for (int i = 0; i < 2; i++) /* later measurements count for models only */
        assert_int_equal(observations_add(o, &tasks[0], &tasks[1], 1, 100), 0);
    predictor_predict(NULL, o, &tasks[1], &tasks[2], 1, &one);
    assert_true(one.interference == before);
    observations_free(o);
}

/* With measurements of pairs only, each further neighbour adds its slowdown. */
static void neighbour_slowdowns_add_up(void **state)
{
    (void)state;
    struct world w;
    struct prediction one, all;
    make_world(&w, 3, true);
    struct observations *o = observations_new(1);
    struct predictor *p = train(&w, MODELS, o, PREDICTOR_FOREST_ALONE);
    double sum = 1;
    for (size_t i = 5; i < MODELS; i++) {
        predictor_predict(p, o, &w.models[4], &w.models[i], 1, &one);
        sum += one.interference - 1;
    }
    predictor_predict(p, o, &w.models[4], &w.models[5], MODELS - 5, &all);
    assert_int_equal(all.source, PREDICTOR_SUM);
    assert_true(fabs(all.interference - sum) < 1e-12);
    predictor_free(p);
    observations_free(o);
}

static void features_ignore_neighbour_order(void **state)
{
    (void)state;
    struct world w;
    double one[FEATURES_ALL], other[FEATURES_ALL];
    make_world(&w, 4, true);
    struct task_profile forth[3] = {w.models[1], w.models[2], w.models[3]};
    struct task_profile back[3] = {w.models[3], w.models[1], w.models[2]};
    features_combine(&w.models[0], forth, 3, one);
    features_combine(&w.models[0], back, 3, other);
    for (int i = 0; i < FEATURES_ALL; i++)
        assert_true(fabs(one[i] - other[i]) < 1e-12);
    double sum = 0;
    for (size_t k = 0; k < 3; k++)
        sum += forth[k].sm_activity;
    assert_true(fabs(one[FEATURES_OWN + FEATURE_SM] - sum) < 1e-12);
    assert_true(one[2 * FEATURES_OWN + FEATURE_SM] == forth[2].sm_activity);
    assert_true(fabs(one[3 * FEATURES_OWN] - w.models[0].sm_activity * sum) < 1e-12);
    assert_true(fabs(one[FEATURE_ITERATION] - log1p(w.models[0].iteration_ms)) < 1e-12);
}

/* The kept observations are a uniform sample of all. */
static void observations_beyond_maximum_are_sampled(void **state)
{
    (void)state;
    enum { TIMES = 8 };
    struct observations *o = observations_new(7);
    struct task_profile own = {.family = 1}, neighbour = {.family = 2};
    for (size_t i = 0; i < (size_t)TIMES * OBSERVATIONS_MAX; i++)
        assert_int_equal(observations_add(o, &own, &neighbour, 1, i < OBSERVATIONS_MAX ? 1 : 2), 0);
    assert_int_equal(observations_count(o), OBSERVATIONS_MAX);
    assert_int_equal(observations_total(o), (uint64_t)TIMES * OBSERVATIONS_MAX);
    size_t early = 0;
    for (size_t i = 0; i < OBSERVATIONS_MAX; i++)
        early += observations_at(o, i)->log_interference == 0;
    assert_true(early > OBSERVATIONS_MAX / TIMES / 2 && early < OBSERVATIONS_MAX / TIMES * 2);
    observations_free(o);
}

static struct predictor *reload(const struct str *s)
{
    struct predictor *p = NULL;
    struct error e;
    assert_int_equal(predictor_load(&e, s->data, s->length, &p), 0);
    return p;
}

static void predictor_reloads_or_detects_damage(void **state)
{
    (void)state;
    struct world w;
    struct str saved, again;
    struct prediction one, other;
    make_world(&w, 5, true);
    struct observations *o = observations_new(1);
    struct predictor *p = train(&w, MODELS, o, PREDICTOR_FOREST_OR_NETWORK), *same = NULL;
    assert_int_equal(predictor_train(o, PREDICTOR_FOREST_OR_NETWORK, 1, &same), 0);
    assert_int_equal(predictor_id(p), predictor_id(same));
    str_init(&saved, PREDICTOR_STORED_MAX);
    str_init(&again, PREDICTOR_STORED_MAX);
    predictor_save(p, &saved);
    predictor_save(same, &again);
    assert_int_equal(saved.length, again.length);
    assert_memory_equal(saved.data, again.data, saved.length);
    predictor_free(same);

    struct predictor *back = reload(&saved);
    assert_int_equal(predictor_id(back), predictor_id(p));
    for (size_t i = 0; i < MODELS; i++)
        for (size_t j = 0; j < MODELS; j++) {
            ask(&w, p, NULL, i, j, &one);
            ask(&w, back, NULL, i, j, &other);
            assert_true(one.interference == other.interference && one.spread == other.spread &&
                        one.source == other.source);
        }
    struct error e;
    struct predictor *none = NULL;
    for (size_t at = 0; at < saved.length; at += 1 + saved.length / 200) {
        saved.data[at] = (char)(saved.data[at] ^ 0x10);
        assert_true(predictor_load(&e, saved.data, saved.length, &none) < 0);
        saved.data[at] = (char)(saved.data[at] ^ 0x10);
        assert_int_equal(predictor_load(&e, saved.data, at, &none), -ERR_CORRUPT);
    }
    assert_null(none);
    predictor_free(p);
    predictor_free(back);
    observations_free(o);
    str_done(&saved);
    str_done(&again);
}

static void observations_reload_or_detect_damage(void **state)
{
    (void)state;
    struct world w;
    struct str saved, again;
    struct error e;
    make_world(&w, 6, true);
    struct observations *o = observations_new(1), *back = NULL;
    predictor_free(train(&w, MODELS, o, PREDICTOR_FOREST_ALONE));
    str_init(&saved, OBSERVATIONS_STORED_MAX);
    str_init(&again, OBSERVATIONS_STORED_MAX);
    observations_save(o, &saved);
    assert_int_equal(observations_load(&e, saved.data, saved.length, &back), 0);
    observations_save(back, &again);
    assert_int_equal(saved.length, again.length);
    assert_memory_equal(saved.data, again.data, saved.length);
    saved.data[saved.length / 2] ^= 1;
    struct observations *none = NULL;
    assert_int_equal(observations_load(&e, saved.data, saved.length, &none), -ERR_CORRUPT);
    assert_null(none);
    observations_free(o);
    observations_free(back);
    str_done(&saved);
    str_done(&again);
}

static void source_names_are_distinct(void **state)
{
    (void)state;
    for (int i = 0; i < PREDICTOR_SOURCE_END; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(predictor_source_name((enum predictor_source)i),
                                    predictor_source_name((enum predictor_source)j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unseen_pair_prediction_beats_median),
        cmocka_unit_test(unseen_task_gets_guess_or_median),
        cmocka_unit_test(profile_far_outside_gets_median),
        cmocka_unit_test(prediction_source_follows_available_data),
        cmocka_unit_test(first_measurements_correct_cold_formula),
        cmocka_unit_test(neighbour_slowdowns_add_up),
        cmocka_unit_test(features_ignore_neighbour_order),
        cmocka_unit_test(observations_beyond_maximum_are_sampled),
        cmocka_unit_test(predictor_reloads_or_detects_damage),
        cmocka_unit_test(observations_reload_or_detect_damage),
        cmocka_unit_test(source_names_are_distinct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
