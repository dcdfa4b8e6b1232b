/* The search finds known optima, respects its limits on memory and rounds, and survives saving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/tuner.h"

static const struct tuner_options defaults = TUNER_OPTIONS_DEFAULT;

static struct tuner_task task_of(uint32_t user_batch)
{
    struct tuner_task task;
    struct memory_model memory = {0};
    struct tuner_limits limits = {1, 1u << 20, 1};
    /* 1 MiB per sample. */
    for (uint32_t batch = user_batch; batch <= 8 * user_batch; batch += user_batch)
        assert_int_equal(memory_observe(&memory, batch, (uint64_t)batch << 20), 0);
    assert_int_equal(tuner_task_make(user_batch, &limits, &memory, 0, &task), 0);
    assert_int_equal(task.choice_count, TUNER_CHOICES_MAX);
    return task;
}

/* Returns a log PD with the minimum 0 at bests[i] octaves above the users' batches. */
static double bowl(const struct tuner_task *tasks, size_t count, const double *bests,
                   const uint32_t *batches)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double away = log2(batches[i] / (double)tasks[i].user_batch) - bests[i];
        sum += away * away / (2 + fabs(away)); /* parabola near the minimum, linear far away */
    }
    return 0.3 * sum;
}

static double normal(struct rng *r)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += rng_double(r);
    return sum;
}

/* Runs a search to its end and returns the regret at its best point. */
static double search(struct tuner *t, const struct tuner_task *tasks, size_t count,
                     const double *bests, struct rng *r)
{
    uint32_t batches[TUNER_TASKS_MAX];
    double pd;
    while (tuner_ask(t, batches))
        assert_int_equal(tuner_tell(t, exp(bowl(tasks, count, bests, batches) + 0.05 * normal(r))),
                         0);
    assert_int_equal(tuner_tell(t, 1), -ERR_CONFLICT);
    assert_true(tuner_best(t, batches, &pd));
    return bowl(tasks, count, bests, batches);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_finds_optima(size_t tasks_count, size_t runs, double regret_max)
{
    double regrets[32];
    for (uint64_t seed = 0; seed < runs; seed++) {
        struct tuner_task tasks[4];
        double bests[4];
        struct rng r;
        struct tuner *t;
        rng_seed(&r, seed);
        for (size_t i = 0; i < tasks_count; i++) {
            tasks[i] = task_of(64u << i);
            bests[i] = 4 * rng_double(&r) - 2;
        }
        assert_int_equal(tuner_new(NULL, tasks, tasks_count, &defaults, NULL, &t), 0);
        regrets[seed] = search(t, tasks, tasks_count, bests, &r);
        assert_true(tuner_rounds(t) <= 25);
        tuner_free(t);
    }
    qsort(regrets, runs, sizeof *regrets, compare_doubles);
    assert_true(regrets[runs / 2] <= regret_max);
}

static void tuner_finds_planted_optimum(void **state)
{
    (void)state;
    check_finds_optima(1, 15, 0.03);
    check_finds_optima(2, 15, 0.03);
    check_finds_optima(4, 5, 0.10);
}

static void tuner_asks_users_batches_until_told(void **state)
{
    (void)state;
    struct tuner_task tasks[2] = {task_of(64), task_of(100)};
    struct tuner *t;
    uint32_t a[2], b[2];
    double pd;
    assert_int_equal(tuner_new(NULL, tasks, 2, &defaults, NULL, &t), 0);
    assert_false(tuner_best(t, a, &pd));
    assert_true(tuner_ask(t, a));
    assert_true(a[0] == 64 && a[1] == 100);
    assert_true(tuner_ask(t, b));
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(tuner_tell(t, 0), -ERR_INVALID);
    assert_int_equal(tuner_tell(t, NAN), -ERR_INVALID);
    assert_int_equal(tuner_tell(t, 2), 0);
    assert_true(tuner_ask(t, b));
    assert_true(a[0] != b[0] || a[1] != b[1]);
    assert_true(tuner_best(t, b, &pd));
    assert_memory_equal(a, b, sizeof a);
    tuner_free(t);
}

static void tuner_batches_stay_within_memory(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 4; count++) {
        struct tuner_options options = defaults;
        struct tuner_task tasks[4];
        struct tuner *t;
        uint32_t batches[4];
        for (size_t i = 0; i < count; i++)
            tasks[i] = task_of(1024);
        options.memory_bytes = count * ((uint64_t)1500 << 20);
        assert_int_equal(tuner_new(NULL, tasks, count, &options, NULL, &t), 0);
        while (tuner_ask(t, batches)) {
            double log_pd = 0;
            uint64_t bytes = 0;
            for (size_t i = 0; i < count; i++) {
                bytes += (uint64_t)batches[i] << 20;
                log_pd -= 0.3 * log2(batches[i]); /* larger is always better */
            }
            assert_true(bytes <= options.memory_bytes);
            assert_int_equal(tuner_tell(t, exp(log_pd)), 0);
        }
        tuner_free(t);
        options.memory_bytes = 1 << 20;
        assert_int_equal(tuner_new(NULL, tasks, count, &options, NULL, &t), -ERR_TOO_LARGE);
    }
}

static double exact_prior(void *context, const uint32_t *batches)
{
    const struct tuner_task *tasks = context;
    static const double bests[2] = {1.5, -1};
    return bowl(tasks, 2, bests, batches);
}

static void tuner_prior_knowledge_speeds_search(void **state)
{
    (void)state;
    static const double bests[2] = {1.5, -1};
    struct tuner_task tasks[2] = {task_of(64), task_of(64)};
    struct tuner_prior prior = {exact_prior, tasks};
    struct tuner *t;
    uint32_t batches[2];
    /* With a correct prior, the second point is the best one. */
    assert_int_equal(tuner_new(NULL, tasks, 2, &defaults, &prior, &t), 0);
    assert_int_equal(tuner_tell(t, 3 * exp(bowl(tasks, 2, bests, (uint32_t[]){64, 64}))), 0);
    assert_true(tuner_ask(t, batches));
    assert_true(bowl(tasks, 2, bests, batches) < 0.1);
    tuner_free(t);

    /* An earlier search at another level. */
    assert_int_equal(tuner_new(NULL, tasks, 2, &defaults, NULL, &t), 0);
    for (size_t i = 0; i < 16; i++) {
        uint32_t at[2] = {16u << i % 4, 16u << i / 4};
        double pd = 5 * exp(bowl(tasks, 2, bests, at));
        assert_int_equal(tuner_recall(t, at, pd, 0.15), 0);
        assert_int_equal(tuner_recall(t, at, pd, 0), -ERR_INVALID);
    }
    assert_int_equal(tuner_recall(t, (uint32_t[]){63, 64}, 1, 0.1), -ERR_INVALID);
    assert_int_equal(tuner_tell(t, exp(bowl(tasks, 2, bests, (uint32_t[]){64, 64}))), 0);
    assert_true(tuner_ask(t, batches));
    assert_true(bowl(tasks, 2, bests, batches) < bowl(tasks, 2, bests, (uint32_t[]){64, 64}));
    assert_int_equal(tuner_recall(t, batches, 1, 0.1), -ERR_CONFLICT);
    tuner_free(t);
}

static void tuner_ends_without_further_gain(void **state)
{
    (void)state;
    struct tuner_task tasks[1] = {task_of(64)};
    struct tuner *t;
    uint32_t batch;
    assert_int_equal(tuner_new(NULL, tasks, 1, &defaults, NULL, &t), 0);
    while (tuner_ask(t, &batch)) /* the user's batch is by far the best */
        assert_int_equal(tuner_tell(t, batch == 64 ? 1 : 20), 0);
    assert_true(tuner_rounds(t) < 25);
    double pd;
    assert_true(tuner_best(t, &batch, &pd));
    assert_int_equal(batch, 64);
    tuner_free(t);
}

static void task_batch_choices_respect_limits(void **state)
{
    (void)state;
    struct tuner_task task;
    struct memory_model memory = {0};
    struct tuner_limits limits = {16, 300, 8};
    assert_int_equal(tuner_task_make(100, &limits, NULL, 77, &task), 0);
    assert_int_equal(task.choices[task.choice_count - 1].batch, 100); /* none above the user's */
    assert_int_equal(memory_observe(&memory, 200, 1000), 0);
    assert_int_equal(tuner_task_make(100, &limits, &memory, 77, &task), 0);
    for (size_t i = 0; i < task.choice_count; i++) {
        uint32_t batch = task.choices[i].batch;
        assert_true(batch >= 16 && batch <= 250 && (batch % 8 == 0 || batch == 100));
        assert_true(i == 0 || batch > task.choices[i - 1].batch);
        assert_int_equal(task.choices[i].memory_bytes, memory_booking(&memory, batch));
    }
    assert_int_equal(task.choices[0].batch, 24);
    assert_int_equal(task.choices[task.choice_count - 1].batch, 248);
    limits = (struct tuner_limits){1, 1000, 150}; /* no multiple of the step within the limits */
    assert_int_equal(tuner_task_make(100, &limits, &memory, 77, &task), 0);
    assert_int_equal(task.choices[0].batch, 100);
    assert_int_equal(task.choices[1].batch, 150);
    assert_int_equal(task.choice_count, 2);
    limits.batch_max = 10;
    assert_int_equal(tuner_task_make(100, &limits, &memory, 77, &task), 0);
    assert_int_equal(task.choice_count, 1);
    assert_int_equal(tuner_task_make(0, &limits, &memory, 77, &task), -ERR_INVALID);
}

static void tuner_reloads_or_detects_damage(void **state)
{
    (void)state;
    struct tuner_task tasks[3] = {task_of(64), task_of(128), task_of(32)};
    static const double bests[3] = {1, -1, 0.5};
    for (size_t count = 1; count <= 3; count++) {
        struct tuner *a, *b;
        struct str saved;
        uint32_t at[3], at_b[3] = {0};
        assert_int_equal(tuner_new(NULL, tasks, count, &defaults, NULL, &a), 0);
        assert_int_equal(tuner_recall(a, (uint32_t[]){64, 64, 64}, 2, 0.2), 0);
        for (int round = 0; round < 9; round++) {
            assert_true(tuner_ask(a, at));
            assert_int_equal(tuner_tell(a, exp(bowl(tasks, count, bests, at))), 0);
        }
        str_init(&saved, TUNER_STORED_MAX);
        tuner_save(a, &saved);
        assert_false(str_failed(&saved));
        assert_int_equal(tuner_load(NULL, saved.data, saved.length, NULL, &b), 0);
        while (tuner_ask(a, at)) { /* both ask the same questions to the end */
            assert_true(tuner_ask(b, at_b));
            assert_memory_equal(at, at_b, count * sizeof *at);
            double pd = exp(bowl(tasks, count, bests, at));
            assert_int_equal(tuner_tell(a, pd), 0);
            assert_int_equal(tuner_tell(b, pd), 0);
        }
        assert_false(tuner_ask(b, at_b));
        tuner_free(b);
        b = NULL;
        for (size_t byte = 0; byte < saved.length; byte += 3) {
            saved.data[byte] ^= 4;
            assert_int_equal(tuner_load(NULL, saved.data, saved.length, NULL, &b), -ERR_CORRUPT);
            saved.data[byte] ^= 4;
        }
        assert_null(b);
        tuner_free(a);
        str_done(&saved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuner_finds_planted_optimum),
        cmocka_unit_test(tuner_asks_users_batches_until_told),
        cmocka_unit_test(tuner_batches_stay_within_memory),
        cmocka_unit_test(tuner_prior_knowledge_speeds_search),
        cmocka_unit_test(tuner_ends_without_further_gain),
        cmocka_unit_test(task_batch_choices_respect_limits),
        cmocka_unit_test(tuner_reloads_or_detects_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
