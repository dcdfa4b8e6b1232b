#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "policy/learnt.h"

enum { TASKS = 6 };

static const struct forecast_device device = {.model = "NVIDIA H200", .hash = 7};

static double activity_of(uint32_t task)
{
    return 0.15 + 0.15 * task;
}

/* The true interference: somewhat more than the sum of all demands. */
static double true_interference(double sum)
{
    return 1.1 + 0.8 * fmax(0, sum - 0.5);
}

/* Adds a kind under the next free number. */
static uint32_t add(struct learnt *l, const struct learnt_kind *kind)
{
    const struct forecast *f = learnt_forecast(l);
    uint32_t number = 1;
    while (f->profile(f->context, &device, number))
        number++;
    assert_int_equal(learnt_set_kind(l, number, LEARNT_ANY_DEVICE, kind), 0);
    return number;
}

static struct learnt *open_learnt(uint32_t kinds[TASKS])
{
    struct learnt *l = learnt_new();
    assert_non_null(l);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct learnt_kind k = {.name = "task", .batch_reference = 32, .batch = 32};
        k.features = (struct task_profile){
            .family = i + 1, .sm_activity = activity_of(i), .iteration_ms = 50, .busy = 0.9};
        kinds[i] = add(l, &k);
        assert_int_equal(kinds[i], i + 1);
    }
    return l;
}

static struct forecast_answer ask(const struct learnt *l, size_t count, const uint32_t *kinds,
                                  struct forecast_set *ret_set)
{
    const struct forecast *f = learnt_forecast(l);
    struct forecast_answer answer;
    *ret_set = (struct forecast_set){.device = &device};
    for (size_t i = 0; i < count; i++)
        (void)forecast_set_add(ret_set, kinds[i]);
    f->together(f->context, ret_set, &answer);
    return answer;
}

static void forecast_without_measurements_adds_activities(void **state)
{
    uint32_t kinds[TASKS];
    struct forecast_set set;
    struct learnt *l = open_learnt(kinds);
    (void)state;
    assert_true(ask(l, 1, (uint32_t[]){kinds[2]}, &set).pd[0] == 1);
    struct forecast_answer both = ask(l, 2, (uint32_t[]){kinds[5], kinds[2]}, &set);
    assert_true(fabs(both.pd[0] - (activity_of(5) + activity_of(2))) < 1e-9);
    assert_true(both.pd[0] == both.pd[1]);
    struct forecast_answer little = ask(l, 2, (uint32_t[]){kinds[0], kinds[1]}, &set);
    assert_true(little.pd[0] == 1);
    struct forecast_answer unknown = ask(l, 2, (uint32_t[]){FORECAST_KIND_UNKNOWN, kinds[5]}, &set);
    /* Not the cold-start value 0.75 + 0.9, because one kind is unknown. */
    assert_true(unknown.pd[0] == 1.5);
    assert_null(learnt_forecast(l)->profile(learnt_forecast(l)->context, &device, 0));
    assert_null(learnt_forecast(l)->profile(learnt_forecast(l)->context, &device, 99));
    learnt_free(l);
    learnt_free(NULL);
}

/* Measured pairs, and then a model trained on them: close to the truth, and repeatable. */
static void forecast_learns_from_measured_pairs(void **state)
{
    uint32_t kinds[TASKS];
    struct learnt *l = open_learnt(kinds);
    struct observations *o = observations_new(1);
    struct predictor *p = NULL;
    struct rng rng;
    double error_cold = 0, error = 0;
    (void)state;
    rng_seed(&rng, 2);
    for (uint32_t i = 0; i < TASKS; i++)
        for (uint32_t k = 0; k < TASKS; k++)
            for (int n = 0; n < 2; n++) {
                struct task_profile own = {.family = i + 1,
                                           .sm_activity = activity_of(i),
                                           .iteration_ms = 50,
                                           .busy = 0.9};
                struct task_profile other = own;
                other.family = k + 1;
                other.sm_activity = activity_of(k);
                double truth = true_interference(activity_of(i) + activity_of(k));
                assert_int_equal(
                    observations_add(o, &own, &other, 1, truth * (0.97 + 0.06 * rng_double(&rng))),
                    0);
            }
    assert_int_equal(predictor_train(o, PREDICTOR_FOREST_ALONE, 3, &p), 0);
    for (int trained = 0; trained < 2; trained++)
        for (uint32_t i = 0; i < TASKS; i++)
            for (uint32_t k = 0; k < TASKS; k++) {
                struct forecast_set set;
                double truth = true_interference(activity_of(i) + activity_of(k));
                learnt_set_model(l, trained ? p : NULL, trained ? o : NULL);
                struct forecast_answer a = ask(l, 2, (uint32_t[]){kinds[i], kinds[k]}, &set);
                struct forecast_answer b = ask(l, 2, (uint32_t[]){kinds[k], kinds[i]}, &set);
                assert_memory_equal(a.pd, b.pd, 2 * sizeof a.pd[0]);
                *(trained ? &error : &error_cold) += fabs(a.pd[0] / truth - 1);
            }
    assert_true(error < 0.06 * TASKS * TASKS && error < error_cold / 2);
    learnt_free(l);
    predictor_free(p);
    observations_free(o);
}

static void pd_accounts_for_batch_size(void **state)
{
    struct learnt *l = learnt_new();
    struct forecast_set set;
    uint32_t number;
    (void)state;
    /* Twice the batch in 1.5 times the time, with so much noise that all samples count: 3/4. */
    struct learnt_kind k = {.name = "large",
                            .batch_reference = 32,
                            .batch = 64,
                            .iteration_reference_ms = 100,
                            .iteration_ms = 150,
                            .noise_scale = 1e9};
    number = add(l, &k);
    assert_true(fabs(ask(l, 1, &number, &set).pd[0] - 0.75) < 1e-6);
    learnt_free(l);
}

static void service_latency_grows_with_neighbours(void **state)
{
    struct learnt *l = learnt_new();
    uint32_t service, task, others[3];
    struct forecast_set set;
    struct pwl_curve alone, beside;
    (void)state;
    struct learnt_kind s = {.name = "service", .kind = WORKLOAD_SERVICE, .slo_ms = 100};
    s.rate_per_s = 20;
    s.batch_count = 2;
    s.batches[0] = 1;
    s.batches[1] = 8;
    s.curves[0] = (struct pwl_curve){.knee_share = 50, .knee_latency = 10, .left_slope = -0.5};
    s.curves[1] = (struct pwl_curve){.knee_share = 50, .knee_latency = 30, .left_slope = -1};
    s.features.sm_activity = 0.4;
    struct learnt_kind t = {.name = "task", .features = {.sm_activity = 0.9}};
    service = add(l, &s);
    task = add(l, &t);
    others[0] = service;
    others[1] = others[2] = task;
    double p99 = ask(l, 1, others, &set).p99_ms[0];
    assert_true(fabs(p99 - 2.9 * 10) < 1e-9);
    double with_one = ask(l, 2, others, &set).p99_ms[0];
    double with_two = ask(l, 3, others, &set).p99_ms[0];
    assert_true(p99 < with_one && with_one < with_two);
    assert_true(ask(l, 2, others, &set).pd[0] == 1 && ask(l, 2, others, &set).pd[1] > 1);
    const struct forecast *f = learnt_forecast(l);
    struct forecast_set nobody = {.device = &device}, one = {.device = &device};
    (void)forecast_set_add(&one, task);
    assert_true(f->curve(f->context, &nobody, service, 8, &alone));
    assert_true(f->curve(f->context, &one, service, 8, &beside));
    assert_true(beside.left_slope < alone.left_slope && beside.knee_latency > alone.knee_latency);
    assert_false(f->curve(f->context, &nobody, service, 4, &alone));
    learnt_free(l);
}

/* The p99 is measured alone and beside two tasks. Beside other neighbours the forecast guesses the
 * p99 from the slowdown. */
static void measured_p99_replaces_guess(void **state)
{
    struct learnt *l = learnt_new();
    struct forecast_set set;
    struct forecast_answer a;
    (void)state;
    struct learnt_kind t = {.name = "task", .features = {.sm_activity = 0.9}};
    uint32_t task = add(l, &t), other = add(l, &t);
    struct learnt_kind s = {.name = "service",
                            .kind = WORKLOAD_SERVICE,
                            .features = {.sm_activity = 0.4},
                            .slo_ms = 100};
    uint32_t service = add(l, &s);
    a = ask(l, 2, (uint32_t[]){service, task}, &set);
    assert_true(a.p99_ms[1] == 0 && !a.is_p99_guess[1]); /* unknown */
    s.p99_ms = 30;
    s.is_p99_recent = true;
    s.beside_count = 1;
    s.besides[0] = (struct learnt_beside){.count = 2, .kinds = {task, task}, .slowdown = 3};
    assert_int_equal(learnt_set_kind(l, service, LEARNT_ANY_DEVICE, &s), 0);
    a = ask(l, 1, &service, &set);
    assert_true(a.p99_ms[0] == 30 && !a.is_p99_guess[0]);
    a = ask(l, 3, (uint32_t[]){task, service, task}, &set);
    assert_true(set.kinds[2] == service && a.p99_ms[2] == 90 && !a.is_p99_guess[2]);
    a = ask(l, 3, (uint32_t[]){task, service, other}, &set);
    assert_true(a.p99_ms[2] > 30 && a.p99_ms[2] < 90 && a.is_p99_guess[2]);
    s.p99_ms = 101; /* above the SLO even alone */
    assert_int_equal(learnt_set_kind(l, service, LEARNT_ANY_DEVICE, &s), 0);
    a = ask(l, 3, (uint32_t[]){task, service, other}, &set);
    assert_true(a.p99_ms[2] > 101 && !a.is_p99_guess[2]);
    s.is_p99_recent = false; /* the measurement is old */
    assert_int_equal(learnt_set_kind(l, service, LEARNT_ANY_DEVICE, &s), 0);
    assert_true(ask(l, 3, (uint32_t[]){task, service, other}, &set).is_p99_guess[2]);
    assert_true(ask(l, 1, &service, &set).is_p99_guess[0]);
    s.slo_ms = 0;
    assert_int_equal(learnt_set_kind(l, service, LEARNT_ANY_DEVICE, &s), 0);
    assert_true(ask(l, 1, &service, &set).p99_ms[0] == 0);
    s.beside_count = LEARNT_BESIDES_MAX + 1;
    assert_int_equal(learnt_set_kind(l, service, LEARNT_ANY_DEVICE, &s), -ERR_TOO_LARGE);
    learnt_free(l);
}

/* Three unknown programs share a device as forecast_blind predicts, and a measured program does not
 * become faster beside them. */
static void unknown_program_gets_blind_forecast(void **state)
{
    uint32_t kinds[TASKS], three[3] = {100, 101, 102};
    struct forecast_set set;
    struct learnt *l = open_learnt(kinds);
    struct observations *o = observations_new(1);
    struct task_profile own = {.family = 6, .sm_activity = activity_of(5), .iteration_ms = 50};
    (void)state;
    own.busy = 0.9;
    assert_true(ask(l, 3, three, &set).pd[0] == 2);
    for (int i = 0; i < OBSERVATIONS_PATTERN_MIN; i++)
        assert_int_equal(observations_add(o, &own, &own, 1, 4), 0);
    uint64_t version = learnt_forecast(l)->version;
    learnt_set_model(l, NULL, o);
    assert_true(learnt_forecast(l)->version != version);
    uint32_t two[3] = {kinds[5], kinds[5], 100};
    assert_true(fabs(ask(l, 2, two, &set).pd[0] - 4) < 1e-9);
    assert_true(fabs(ask(l, 3, two, &set).pd[0] - 4) < 1e-9);
    assert_true(ask(l, 3, two, &set).pd[2] == 2);
    learnt_free(l);
    observations_free(o);
}

static void kind_profile_depends_on_device(void **state)
{
    struct learnt *l = learnt_new();
    const struct forecast *f = learnt_forecast(l);
    const struct forecast_device other = {.model = "NVIDIA T4", .hash = 8};
    struct learnt_kind k = {.name = "program", .features = {.sm_activity = 0.2}};
    (void)state;
    uint64_t version = f->version;
    assert_int_equal(learnt_set_kind(l, 3, device.hash, &k), 0);
    assert_true(f->version != version);
    k.features.sm_activity = 0.8;
    assert_int_equal(learnt_set_kind(l, 3, other.hash, &k), 0);
    assert_true(f->profile(f->context, &device, 3)->sm_activity == 0.2);
    assert_true(f->profile(f->context, &other, 3)->sm_activity == 0.8);
    assert_string_equal(f->profile(f->context, &device, 3)->name, "program");
    k.features.sm_activity = 0.3;
    assert_int_equal(learnt_set_kind(l, 3, device.hash, &k), 0);
    assert_true(f->profile(f->context, &device, 3)->sm_activity == 0.3);
    for (uint64_t type = 10; type < 8 + LEARNT_DEVICES_MAX; type++)
        assert_int_equal(learnt_set_kind(l, 3, type, &k), 0);
    assert_int_equal(learnt_set_kind(l, 3, 99, &k), -ERR_TOO_LARGE);
    assert_int_equal(learnt_set_kind(l, LEARNT_KINDS_MAX, 1, &k), -ERR_TOO_LARGE);
    assert_int_equal(learnt_set_kind(l, 0, 1, &k), -ERR_TOO_LARGE);
    learnt_forget_kind(l, 3);
    assert_null(f->profile(f->context, &device, 3));
    /* A service without measurements is still known as a service. */
    struct learnt_kind s = {
        .name = "service", .kind = WORKLOAD_SERVICE, .is_unmeasured = true, .slo_ms = 50};
    assert_int_equal(learnt_set_kind(l, 3, LEARNT_ANY_DEVICE, &s), 0);
    assert_true(f->profile(f->context, &device, 3)->slo_ms == 50);
    s.kind = WORKLOAD_TASK;
    assert_int_equal(learnt_set_kind(l, 3, LEARNT_ANY_DEVICE, &s), 0);
    assert_null(f->profile(f->context, &device, 3));
    learnt_free(l);
}

/* The caller may free its device before it repeats the question, so a hash identifies the
 * device. */
static void forecast_repeats_after_device_is_freed(void **state)
{
    uint32_t kinds[TASKS];
    struct learnt *l = open_learnt(kinds);
    const struct forecast *f = learnt_forecast(l);
    struct forecast_answer answers[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct forecast_device *own = malloc(sizeof *own);
        assert_non_null(own);
        *own = device;
        struct forecast_set set = {.device = own, .count = 2, .kinds = {kinds[2], kinds[5]}};
        f->together(f->context, &set, &answers[i]);
        free(own);
    }
    assert_true(answers[0].pd[1] == answers[1].pd[1] && answers[0].pd[1] == answers[2].pd[1]);
    learnt_free(l);
}

static void sojourn_time_grows_with_rate(void **state)
{
    (void)state;
    assert_true(learnt_sojourn_ms(1, 10, 1) == 29);
    assert_true(fabs(learnt_sojourn_ms(1, 10, 50) - 43) < 1e-9);
    assert_true(fabs(learnt_sojourn_ms(1, 10, 60) - 58.5) < 1e-9);
    assert_true(isinf(learnt_sojourn_ms(1, 10, 71)));
    assert_true(learnt_sojourn_ms(32, 10, 100) == 20);
    for (double rate = 1; rate < 69; rate += 1)
        assert_true(learnt_sojourn_ms(1, 10, rate) <= learnt_sojourn_ms(1, 10, rate + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forecast_without_measurements_adds_activities),
        cmocka_unit_test(unknown_program_gets_blind_forecast),
        cmocka_unit_test(kind_profile_depends_on_device),
        cmocka_unit_test(forecast_learns_from_measured_pairs),
        cmocka_unit_test(pd_accounts_for_batch_size),
        cmocka_unit_test(service_latency_grows_with_neighbours),
        cmocka_unit_test(measured_p99_replaces_guess),
        cmocka_unit_test(forecast_repeats_after_device_is_freed),
        cmocka_unit_test(sojourn_time_grows_with_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
