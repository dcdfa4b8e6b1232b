/* belief_test: learnt slowdowns, compared with the truth. */
#include "sim/belief.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sim/scenario.h"

enum { KINDS_MAX = 16 };

struct world {
    struct scenario scenario;
    struct serving_ways ways;
    struct belief *learnt, *truth;
    struct forecast_device type;
    size_t kind_count;
};

static struct belief *make_belief(const struct world *w, bool is_true)
{
    const struct belief_config config = {.truth = w->scenario.truth,
                                         .hardware = &w->scenario.hardware,
                                         .is_true = is_true,
                                         .seed = 1};
    struct belief *b = NULL;
    assert_int_equal(belief_new(&config, &b), 0);
    return b;
}

/* Makes a kind of every model, at a measured batch size. */
static void open_world(struct world *w)
{
    const struct scenario_words words = {.nodes = "1xH200:24g", .trace = "tasks-300", .seed = 1};
    *w = (struct world){0};
    assert_int_equal(scenario_open(NULL, &words, &w->scenario), 0);
    w->learnt = make_belief(w, false);
    w->truth = make_belief(w, true);
    const struct hardware_group *group = &w->scenario.hardware.groups[0];
    struct device device = {.memory_bytes = group->memory_bytes, .sm_count = group->gpu->sm_count};
    (void)snprintf(device.model, sizeof device.model, "%s", group->gpu->model);
    forecast_device_make(&device, &w->type);
    const struct tables *tables = truth_tables(w->scenario.truth);
    for (size_t i = 0; i < tables->model_count && w->kind_count < KINDS_MAX; i++) {
        const struct belief_kind kind = {
            .model = (uint32_t)i, .batch = tables->models[i].sizes[0].batch, .is_tuned = true};
        uint32_t one, other;
        assert_int_equal(belief_kind_of(w->learnt, &kind, &one), 0);
        assert_int_equal(belief_kind_of(w->truth, &kind, &other), 0);
        assert_true(one == other && one == ++w->kind_count);
    }
}

static void close_world(struct world *w)
{
    belief_free(w->learnt);
    belief_free(w->truth);
    scenario_done(&w->scenario);
}

/* Simulates a set that runs at its best batch sizes. */
static void run(struct world *w, const uint32_t *kinds, size_t count)
{
    double batches[FORECAST_MEMBERS_MAX], pds[FORECAST_MEMBERS_MAX];
    belief_best(w->truth, 0, kinds, count, batches, pds);
    assert_int_equal(belief_observe(w->learnt, 0, kinds, count, batches, pds), 0);
}

static void ask(const struct world *w, const struct forecast *f, const uint32_t *kinds,
                size_t count, struct forecast_answer *ret)
{
    struct forecast_set set = {.device = &w->type};
    for (size_t i = 0; i < count; i++)
        (void)forecast_set_add(&set, kinds[i]);
    f->together(f->context, &set, ret);
}

static bool is_held_out(uint32_t a, uint32_t b)
{
    return (a + b) % 3 == 0;
}

struct errors {
    double sum, size, count; /* of the logarithm; the mean should be close to 0 */
};

static struct errors errors_of(const struct world *w, const struct forecast *f)
{
    const struct forecast *truth = belief_forecast(w->truth);
    struct errors e = {0};
    for (uint32_t a = 1; a <= w->kind_count; a++)
        for (uint32_t b = a; b <= w->kind_count; b++) {
            const uint32_t pair[2] = {a, b};
            struct forecast_answer said, is;
            if (!is_held_out(a, b))
                continue;
            ask(w, f, pair, 2, &said);
            ask(w, truth, pair, 2, &is);
            for (size_t i = 0; i < 2; i++) {
                e.sum += log(said.pd[i] / is.pd[i]);
                e.size += fabs(log(said.pd[i] / is.pd[i]));
                e.count++;
            }
        }
    return e;
}

/* Tuned tasks are faster alone and use more of the device. For pairs that never ran, learnt
 * predictions must neither be too optimistic nor further from the truth than unlearnt ones. */
static void unseen_pair_forecast_improves_with_learning(void **state)
{
    (void)state;
    struct world w;
    struct forecast cold;
    open_world(&w);
    forecast_cold_make(belief_forecast(w.learnt), &cold);
    for (uint32_t a = 1; a <= w.kind_count; a++)
        run(&w, &a, 1);
    struct errors alone = errors_of(&w, belief_forecast(w.learnt));
    for (uint32_t a = 1; a <= w.kind_count; a++)
        for (uint32_t b = a; b <= w.kind_count; b++)
            if (!is_held_out(a, b))
                run(&w, (const uint32_t[2]){a, b}, 2);
    struct errors learnt = errors_of(&w, belief_forecast(w.learnt));
    struct errors unlearnt = errors_of(&w, &cold);
    assert_true(learnt.count > 10);
    assert_true(fabs(learnt.sum) < 0.1 * learnt.count);
    assert_true(learnt.size < 0.5 * unlearnt.size && learnt.size < 0.8 * alone.size);
    close_world(&w);
}

/* A single measurement of a set counts; in a larger set the slowdowns by single neighbours add
 * up. */
static void measured_set_overrides_sum_of_pairs(void **state)
{
    (void)state;
    struct world w;
    struct forecast_answer pair, three, truth;
    const uint32_t kinds[3] = {1, 2, 3};
    open_world(&w);
    const struct forecast *f = belief_forecast(w.learnt);
    run(&w, &kinds[0], 1);
    run(&w, kinds, 2);
    ask(&w, f, kinds, 2, &pair);
    ask(&w, belief_forecast(w.truth), kinds, 2, &truth);
    assert_true(pair.pd[0] == truth.pd[0] && pair.pd[1] == truth.pd[1]);
    uint64_t version = f->version;
    run(&w, (const uint32_t[2]){1, 3}, 2);
    assert_true(f->version > version);
    ask(&w, f, kinds, 3, &three);
    assert_true(three.pd[0] > pair.pd[0]);
    run(&w, kinds, 3);
    ask(&w, f, kinds, 3, &three);
    ask(&w, belief_forecast(w.truth), kinds, 3, &truth);
    assert_true(three.pd[0] == truth.pd[0] && three.pd[2] == truth.pd[2]);
    /* A kind that never ran alone is not slower alone than beside these. */
    ask(&w, f, &kinds[1], 1, &pair);
    assert_true(pair.pd[0] <= 1 && pair.pd[0] <= three.pd[1]);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unseen_pair_forecast_improves_with_learning),
        cmocka_unit_test(measured_set_overrides_sum_of_pairs)};
    return cmocka_run_group_tests_name("belief", tests, NULL, NULL);
}
