/* Learning from reports of a simulated world with known interference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "control/learning.h"
#include "learn/stored.h"

enum { BEAT_MS = 250, SPAN_MS = 1000, WINDOW_MS = 11000, PROGRAMS = 6, SERVICE = PROGRAMS };
static const int64_t wall_ms = 1700000000000;

static const struct forecast_device type = {
    .model = "NVIDIA T4", .memory_bytes = UINT64_C(16) << 30, .sm_count = 40, .hash = 5};

struct world {
    struct learning *learning;
    int64_t now_ms;
    uint64_t last_id;
    uint32_t kinds[PROGRAMS + 1]; /* and the service's kind */
};

static double activity_of(size_t program)
{
    return 0.1 + 0.15 * (double)program;
}

static double speed_of(size_t program)
{
    return 1000 + 100 * (double)program;
}

static struct workload_spec spec_of(const char **words, const char *name)
{
    struct workload_spec s;
    workload_spec_init(&s);
    s.name = name;
    s.directory = "/work";
    s.command = (struct words){.count = 2, .items = words};
    s.needs = (struct workload_needs){
        .devices = 1, .quota_bytes = UINT64_C(1) << 30, .share_max_percent = 100};
    s.batch_reference = 32;
    return s;
}

static uint32_t kind_at(struct learning *l, size_t program, int64_t now_wall_ms)
{
    char number[24];
    const char *words[] = {"train", number, NULL};
    (void)snprintf(number, sizeof number, "%zu", program);
    const struct workload_spec s = spec_of(words, "w");
    return learning_program(l, "alice", &s, now_wall_ms);
}

static uint32_t kind_of(struct learning *l, size_t program)
{
    return kind_at(l, program, wall_ms);
}

static void open_world(struct world *w)
{
    *w = (struct world){.learning = learning_new(), .now_ms = 50000};
    assert_non_null(w->learning);
    for (size_t i = 0; i < PROGRAMS; i++) {
        w->kinds[i] = kind_of(w->learning, i);
        assert_int_not_equal(w->kinds[i], 0);
    }
}

/* A device with these programs for a while, each at its speed alone divided by its slowdown; 0: not
 * reported. */
struct scene {
    size_t count;
    size_t programs[4];
    double slowdowns[4];
    double sm_activity;
    bool is_gang, is_idle;
    /* Of a service: */
    double p99_ms[4];
    double p99_first_ms; /* p99 in the first second of the set; 0: p99_ms */
    uint64_t requests;   /* requests in a measurement */
};

static void play(struct world *w, const struct scene *s, int64_t ms)
{
    struct learning_member members[4];
    int64_t began_ms = w->now_ms, end_ms = w->now_ms + ms;
    for (size_t i = 0; i < s->count; i++)
        members[i] = (struct learning_member){.workload = ++w->last_id,
                                              .attempt = 1,
                                              .program = w->kinds[s->programs[i]],
                                              .is_at_work = !s->is_idle,
                                              .is_gang = s->is_gang,
                                              .memory_bytes = UINT64_C(1) << 30};
    for (; w->now_ms <= end_ms; w->now_ms += BEAT_MS) {
        int64_t measured = (w->now_ms - began_ms) / SPAN_MS; /* number of completed spans */
        for (size_t i = 0; i < s->count; i++) {
            bool says = measured > 0 && s->slowdowns[i] > 0;
            members[i].samples_per_s = says ? speed_of(s->programs[i]) / s->slowdowns[i] : -1;
            bool is_first = w->now_ms - began_ms < SPAN_MS && s->p99_first_ms > 0;
            bool serves = s->p99_ms[i] > 0;
            members[i].p99_ms = serves ? is_first ? s->p99_first_ms : s->p99_ms[i] : -1;
            members[i].requests = serves ? s->requests : 0;
            members[i].latency_since_ms = serves ? WINDOW_MS : -1;
            members[i].speed_since_ms = says ? w->now_ms - began_ms - (measured - 1) * SPAN_MS : -1;
        }
        const struct learning_report r = {.uuid = "GPU-1",
                                          .type = &type,
                                          .sm_activity = s->sm_activity,
                                          .dram_rate = 0.1,
                                          .count = s->count,
                                          .members = members,
                                          .now_ms = w->now_ms,
                                          .now_wall_ms = wall_ms};
        learning_report(w->learning, &r);
    }
}

static void publish(const struct world *w)
{
    assert_true(learning_publish(w->learning, wall_ms));
}

static void play_alone(struct world *w, size_t program, int64_t ms)
{
    const struct scene s = {
        .count = 1, .programs = {program}, .slowdowns = {1}, .sm_activity = activity_of(program)};
    play(w, &s, ms);
}

static void play_pair(struct world *w, size_t a, size_t b, double slowdown, int64_t ms)
{
    const struct scene s = {
        .count = 2, .programs = {a, b}, .slowdowns = {slowdown, slowdown}, .sm_activity = 0.9};
    play(w, &s, ms);
}

/* Returns the forecast's PD of the first program beside the others. */
static double pd_of(const struct learning *l, size_t count, const uint32_t *kinds)
{
    const struct forecast *f = learning_forecast(l);
    struct forecast_set set = {.device = &type};
    struct forecast_answer answer;
    for (size_t i = 0; i < count; i++)
        (void)forecast_set_add(&set, kinds[i]);
    f->together(f->context, &set, &answer);
    for (size_t i = 0; i < count; i++)
        if (set.kinds[i] == kinds[0])
            return answer.pd[i];
    return 0;
}

static double pair_pd(const struct world *w, size_t a, size_t b)
{
    return pd_of(w->learning, 2, (uint32_t[]){w->kinds[a], w->kinds[b]});
}

static size_t measured(const struct world *w)
{
    return observations_count(learning_measurements(w->learning));
}

/* ---- identity of programs ---- */

static void program_identity_follows_command_and_label(void **state)
{
    struct learning *l = learning_new();
    const char *words[] = {"train", "--fast", NULL}, *others[] = {"train", "--slow", NULL};
    struct pair label = {PROGRAM_LABEL, "mine"};
    (void)state;
    struct workload_spec s = spec_of(words, "first");
    uint32_t kind = learning_program(l, "alice", &s, wall_ms);
    s.name = "second";
    s.environment = (struct pairs){.count = 1, .items = &(struct pair){"A", "1"}};
    assert_int_equal(learning_program(l, "alice", &s, wall_ms), kind);
    assert_int_not_equal(learning_program(l, "bob", &s, wall_ms), kind);
    s.needs.quota_bytes++;
    assert_int_not_equal(learning_program(l, "alice", &s, wall_ms), kind);
    s = spec_of(others, "first");
    uint32_t other = learning_program(l, "alice", &s, wall_ms);
    assert_int_not_equal(other, kind);
    s.directory = "/elsewhere";
    assert_int_not_equal(learning_program(l, "alice", &s, wall_ms), other);
    s.labels = (struct pairs){.count = 1, .items = &label};
    uint32_t said = learning_program(l, "alice", &s, wall_ms);
    s = spec_of(words, "first");
    s.labels = (struct pairs){.count = 1, .items = &label};
    assert_int_equal(learning_program(l, "alice", &s, wall_ms), said);
    s.batch_reference = 64;
    assert_int_not_equal(learning_program(l, "alice", &s, wall_ms), said);
    learning_free(l);
}

/* With more programs than numbers, running programs are kept, then measured ones. */
static void full_program_table_drops_unused_programs(void **state)
{
    static bool used[PROGRAMS_MAX];
    struct world w;
    (void)state;
    open_world(&w);
    play_alone(&w, 0, 4000);
    publish(&w);
    uint32_t last = 0, next = 0;
    for (size_t i = PROGRAMS; (next = kind_of(w.learning, i)) != 0; i++)
        last = next;
    assert_int_equal(last, PROGRAMS_MAX - 1);
    used[w.kinds[1]] = true;
    (void)kind_at(w.learning, 2, wall_ms + 1); /* for a submission that is not live yet */
    learning_make_room(w.learning, used, wall_ms);
    assert_int_equal(programs_count(learning_programs(w.learning)), PROGRAMS_MAX - 1);
    learning_make_room(w.learning, used, wall_ms + 1);
    assert_int_equal(programs_count(learning_programs(w.learning)),
                     PROGRAMS_MAX - PROGRAMS_MAX / 4);
    assert_int_equal(kind_of(w.learning, 0), w.kinds[0]);
    assert_int_equal(kind_of(w.learning, 1), w.kinds[1]);
    assert_int_equal(kind_of(w.learning, 2), w.kinds[2]);
    const struct forecast *f = learning_forecast(w.learning);
    assert_non_null(f->profile(f->context, &type, w.kinds[0]));
    assert_int_not_equal(kind_of(w.learning, PROGRAMS_MAX * 2), 0);
    learning_free(w.learning);
}

/* ---- alone ---- */

static void program_alone_yields_profile(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    const struct forecast *f = learning_forecast(w.learning);
    assert_false(learning_publish(w.learning, wall_ms));
    assert_null(f->profile(f->context, &type, w.kinds[2]));
    assert_false(learning_is_known(w.learning, w.kinds[2]));
    play_alone(&w, 2, 4000);
    assert_true(learning_is_known(w.learning, w.kinds[2]));
    assert_null(f->profile(f->context, &type, w.kinds[2]));
    publish(&w);
    assert_false(learning_publish(w.learning, wall_ms));
    const struct forecast_profile *p = f->profile(f->context, &type, w.kinds[2]);
    assert_non_null(p);
    assert_true(fabs(p->sm_activity - activity_of(2)) < 1e-9 && fabs(p->dram_rate - 0.1) < 1e-9);
    assert_true(fabs(p->iteration_ms - 32 * 1000 / speed_of(2)) < 1e-6);
    /* A program without reports is known later, by its use of the device; a program that has not
     * begun is unknown. */
    const struct scene silent = {.count = 1, .programs = {3}, .sm_activity = 0.4};
    play(&w, &silent, 3000);
    assert_false(learning_publish(w.learning, wall_ms));
    assert_null(f->profile(f->context, &type, w.kinds[3]));
    play(&w, &silent, 6000);
    publish(&w);
    assert_true(f->profile(f->context, &type, w.kinds[3])->iteration_ms == 0);
    const struct scene loading = {
        .count = 1, .programs = {4}, .slowdowns = {1}, .sm_activity = 0, .is_idle = true};
    play(&w, &loading, 20000);
    assert_false(learning_publish(w.learning, wall_ms));
    assert_null(f->profile(f->context, &type, w.kinds[4]));
    assert_int_equal(measured(&w), 0);
    learning_free(w.learning);
}

/* A program whose behaviour changes is measured again; a small change leaves the forecast as it
 * is. */
static void changed_program_is_measured_again(void **state)
{
    struct world w;
    struct scene s = {.count = 1, .programs = {0}, .slowdowns = {1}, .sm_activity = 0.5};
    (void)state;
    open_world(&w);
    const struct forecast *f = learning_forecast(w.learning);
    play(&w, &s, 3000);
    publish(&w);
    s.sm_activity = 0.55;
    play(&w, &s, 60000);
    assert_false(learning_publish(w.learning, wall_ms));
    assert_true(f->profile(f->context, &type, w.kinds[0])->sm_activity == 0.5);
    s.sm_activity = 0.9;
    play(&w, &s, 600000);
    publish(&w);
    assert_true(f->profile(f->context, &type, w.kinds[0])->sm_activity > 0.7);
    learning_free(w.learning);
}

/* ---- together ---- */

static void measured_pair_replaces_prediction(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    play_alone(&w, 0, 4000);
    play_alone(&w, 1, 4000);
    publish(&w);
    double cold = pair_pd(&w, 0, 1);
    assert_true(cold == 1); /* the activities predict that both fit */
    play_pair(&w, 0, 1, 1.8, 6000);
    assert_true(measured(&w) >= 2 * OBSERVATIONS_PATTERN_MIN);
    assert_true(pair_pd(&w, 0, 1) == cold);
    publish(&w);
    assert_true(fabs(pair_pd(&w, 0, 1) - 1.8) < 0.01);
    assert_true(fabs(pair_pd(&w, 1, 0) - 1.8) < 0.01);
    /* Ten more minutes add a few measurements, not six hundred. */
    size_t before = measured(&w);
    play_pair(&w, 0, 1, 1.8, 600000);
    assert_in_range(measured(&w) - before, 6, 40);
    learning_free(w.learning);
}

static double outcome_of(const struct world *w, uint64_t workload, double *ret_predicted_pd)
{
    struct learning_outcome o;
    double pd = 0;
    while (learning_take_outcome(w->learning, &o))
        if (o.workload == workload) {
            assert_int_equal(o.attempt, 1);
            pd = o.pd;
            *ret_predicted_pd = o.predicted_pd;
        }
    return pd;
}

/* The outcome has the prediction beside the measurement; the next prediction is that
 * measurement. */
static void outcome_pairs_prediction_with_measurement(void **state)
{
    struct world w;
    double predicted = 0;
    (void)state;
    open_world(&w);
    play_alone(&w, 0, 8000);
    play_alone(&w, 1, 8000);
    assert_true(fabs(outcome_of(&w, 1, &predicted) - 1) < 0.01 && predicted == 1);
    publish(&w);
    play_pair(&w, 0, 1, 2.5, 3000); /* two spans are too few */
    assert_true(outcome_of(&w, 3, &predicted) == 0);
    play_pair(&w, 0, 1, 2.5, 8000);
    assert_true(fabs(outcome_of(&w, 5, &predicted) - 2.5) < 0.01 && predicted == 1);
    publish(&w);
    play_pair(&w, 0, 1, 2.5, 60000);
    struct learning_outcome o;
    size_t told = 0;
    for (; learning_take_outcome(w.learning, &o); told++)
        assert_true(fabs(o.pd - 2.5) < 0.01 && fabs(o.predicted_pd - 2.5) < 0.01);
    assert_int_equal(told, 2); /* one outcome each: as predicted */
    play_pair(&w, 0, 1, 5, 60000);
    for (told = 0; learning_take_outcome(w.learning, &o); told++)
        assert_true(fabs(o.pd - 5) < 0.01 && fabs(o.predicted_pd - 2.5) < 0.01);
    assert_in_range(told, 8, 12); /* repeated outcomes for a task that waits until it is too slow */
    learning_free(w.learning);
}

/* Nothing is learnt from measurements that began before the set, beside an unknown program, without
 * progress, or of a workload with another device. */
static void unusable_measurements_are_not_learnt(void **state)
{
    struct world w;
    (void)state;
    open_world(&w);
    play_alone(&w, 0, 4000);
    play_alone(&w, 1, 4000);
    play_pair(&w, 0, 2, 1.5, 20000);
    assert_int_equal(measured(&w), 0);
    struct scene s = {.count = 2, .programs = {0, 1}, .slowdowns = {1.5, 0}, .sm_activity = 0.5};
    play(&w, &s, 20000);
    assert_int_equal(measured(&w), 0);
    s = (struct scene){.count = 2, .programs = {0, 1}, .slowdowns = {1.5, 1.5}, .sm_activity = 0.5};
    s.is_gang = true;
    play(&w, &s, 20000);
    assert_int_equal(measured(&w), 0);
    /* The first span began with the set, and no later span has ended. */
    play_pair(&w, 0, 1, 1.5, SPAN_MS + SPAN_MS / 2);
    assert_int_equal(measured(&w), 0);
    learning_free(w.learning);
}

/* ---- requests ---- */

static uint32_t service_of(struct learning *l, double slo_ms)
{
    const char *words[] = {"serve", "--all", NULL};
    struct workload_spec s = spec_of(words, "serve");
    s.needs.kind = WORKLOAD_SERVICE;
    s.batch_reference = 0;
    s.slo_latency_ms = slo_ms;
    s.slo_percentile = 99;
    return learning_program(l, "alice", &s, wall_ms);
}

static void open_serving(struct world *w, double slo_ms)
{
    open_world(w);
    w->kinds[SERVICE] = service_of(w->learning, slo_ms);
}

static void serve_alone(struct world *w, double p99_ms, uint64_t requests, int64_t ms)
{
    const struct scene s = {.count = 1,
                            .programs = {SERVICE},
                            .sm_activity = 0.2,
                            .p99_ms = {p99_ms},
                            .requests = requests};
    play(w, &s, ms);
}

static void serve_beside(struct world *w, double first_ms, double p99_ms, int64_t ms)
{
    const struct scene s = {.count = 2,
                            .programs = {SERVICE, 1},
                            .sm_activity = 0.5,
                            .p99_ms = {p99_ms},
                            .p99_first_ms = first_ms,
                            .requests = 300};
    play(w, &s, ms);
}

/* Returns the p99 of the service, beside a task or alone; 0: unknown. */
static double p99_of(const struct world *w, bool is_beside, bool *ret_is_guess)
{
    const struct forecast *f = learning_forecast(w->learning);
    struct forecast_set set = {.device = &type};
    struct forecast_answer answer;
    if (is_beside)
        (void)forecast_set_add(&set, w->kinds[1]);
    size_t own = forecast_set_add(&set, w->kinds[SERVICE]);
    f->together(f->context, &set, &answer);
    *ret_is_guess = answer.is_p99_guess[own];
    return answer.p99_ms[own];
}

static bool is_p99(const struct world *w, bool is_beside, double p99_ms, bool is_guess)
{
    bool is_guessed;
    return fabs(p99_of(w, is_beside, &is_guessed) - p99_ms) < 0.01 && is_guessed == is_guess;
}

/* The p99 is unknown until a measurement began late enough, with enough requests; the last few
 * measurements count. */
static void service_p99_alone_is_measured(void **state)
{
    struct world w;
    (void)state;
    open_serving(&w, 50);
    publish(&w);
    serve_alone(&w, 20, 300, WINDOW_MS - SPAN_MS);
    publish(&w); /* its use of the device */
    assert_true(is_p99(&w, false, 0, false));
    serve_alone(&w, 20, 150, WINDOW_MS + SPAN_MS);
    (void)learning_publish(w.learning, wall_ms);
    assert_true(is_p99(&w, false, 0, false));
    serve_alone(&w, 20, 150, WINDOW_MS + SPAN_MS);
    publish(&w);
    assert_true(is_p99(&w, false, 20, false));
    uint64_t version = learning_programs_version(w.learning);
    serve_alone(&w, 40, 300, 3 * WINDOW_MS);
    assert_true(learning_programs_version(w.learning) > version); /* worth saving */
    publish(&w);
    bool is_guess;
    assert_true(p99_of(&w, false, &is_guess) > 21);
    serve_alone(&w, 40, 300, 40 * WINDOW_MS);
    publish(&w);
    assert_true(p99_of(&w, false, &is_guess) > 35);
    /* A service with another SLO is another program, of which nothing is known. */
    assert_int_not_equal(service_of(w.learning, 60), w.kinds[SERVICE]);
    assert_int_equal(service_of(w.learning, 50), w.kinds[SERVICE]);
    learning_free(w.learning);
}

/* The p99 is a guess at first, then the measurement, until the measurement is stale. */
static void service_p99_beside_task_is_measured(void **state)
{
    struct world w;
    (void)state;
    open_serving(&w, 50);
    play_alone(&w, 1, 4000);
    serve_alone(&w, 20, 300, WINDOW_MS + SPAN_MS);
    publish(&w);
    assert_true(is_p99(&w, true, 20, true)); /* the activities predict that both fit */
    serve_beside(&w, 0, 30, WINDOW_MS - SPAN_MS);
    (void)learning_publish(w.learning, wall_ms);
    assert_true(is_p99(&w, true, 20, true));
    serve_beside(&w, 0, 30, WINDOW_MS + SPAN_MS);
    publish(&w);
    assert_true(is_p99(&w, true, 30, false) && is_p99(&w, false, 20, false));
    assert_false(learning_publish(w.learning, wall_ms + PROGRAM_RECENT_MS - 1));
    assert_true(learning_publish(w.learning, wall_ms + 2 * PROGRAM_RECENT_MS));
    assert_true(is_p99(&w, true, 20, true) && is_p99(&w, false, 20, true));
    learning_free(w.learning);
}

/* Tasks that were never alone are not distinguished, until a service was measured beside one. */
static void unknown_task_is_learnt_beside_service(void **state)
{
    struct world w;
    (void)state;
    open_serving(&w, 50);
    serve_alone(&w, 20, 300, WINDOW_MS + SPAN_MS);
    publish(&w);
    assert_false(learning_is_known(w.learning, w.kinds[1]));
    serve_beside(&w, 20, 70, 4000);
    publish(&w);
    assert_true(learning_is_known(w.learning, w.kinds[1]));
    assert_true(is_p99(&w, true, 70, false));
    learning_free(w.learning);
}

/* A service that loses its neighbours because it misses its SLO has taught the interference, but
 * not if it missed the SLO before. */
static void missed_slo_teaches_interference(void **state)
{
    struct world w;
    (void)state;
    open_serving(&w, 50);
    play_alone(&w, 1, 4000);
    serve_alone(&w, 20, 300, WINDOW_MS + SPAN_MS);
    publish(&w);
    serve_beside(&w, 80, 80, 4000);
    assert_true(is_p99(&w, true, 20, true));
    serve_beside(&w, 20, 45, 4000);
    assert_false(learning_publish(w.learning, wall_ms));
    serve_beside(&w, 20, 80, 4000);
    publish(&w);
    assert_true(is_p99(&w, true, 80, false));
    serve_beside(&w, 20, 70, 4000);
    assert_false(learning_publish(w.learning, wall_ms)); /* the bound is at least 80 */
    serve_beside(&w, 0, 25, WINDOW_MS + SPAN_MS);
    publish(&w);
    assert_true(is_p99(&w, true, 25, false));
    serve_beside(&w, 20, 90, 4000); /* good for a while, and bad now */
    publish(&w);
    assert_true(is_p99(&w, true, 90, false));
    /* A p99 that is too long alone stays too long beside others, measured or not. */
    serve_alone(&w, 90, 300, 40 * WINDOW_MS);
    assert_true(learning_publish(w.learning, wall_ms));
    bool is_guess;
    assert_true(p99_of(&w, true, &is_guess) > 50 && !is_guess);
    learning_free(w.learning);
}

/* ---- models, and restarts ---- */

static void learn_pairs(struct world *w)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        play_alone(w, i, 4000);
    for (size_t i = 0; i < PROGRAMS; i++)
        for (size_t k = i; k < PROGRAMS; k++)
            if (i + k != 5) /* left for the model to predict */
                play_pair(w, i, k, 1 + activity_of(i) + activity_of(k), 2000);
}

static void trained_model_improves_prediction(void **state)
{
    struct world w;
    struct predictor *model;
    (void)state;
    open_world(&w);
    assert_false(learning_wants_model(w.learning));
    learn_pairs(&w);
    publish(&w);
    assert_true(learning_wants_model(w.learning));
    const struct observations *o = learning_measurements(w.learning);
    assert_int_equal(predictor_train(o, PREDICTOR_FOREST_ALONE, 1, &model), 0);
    double truth = 1 + activity_of(1) + activity_of(4);
    double cold = fabs(pair_pd(&w, 1, 4) - truth);
    learning_set_model(w.learning, model, observations_total(o));
    assert_false(learning_wants_model(w.learning));
    assert_true(fabs(pair_pd(&w, 1, 4) - truth) < cold / 2);
    for (int i = 0; i < 100 && !learning_wants_model(w.learning); i++)
        play_pair(&w, 0, 1, 1.35, 4000);
    assert_true(learning_wants_model(w.learning));
    learning_free(w.learning);
}

/* Saves and loads into a new process in which programs come in another order. */
static void restart(struct world *w, struct world *ret)
{
    struct programs *programs;
    struct observations *measurements;
    struct str bytes;
    struct error e = {0};
    *ret = (struct world){.learning = learning_new(), .now_ms = w->now_ms, .last_id = w->last_id};
    str_init(&bytes, PROGRAMS_STORED_MAX);
    programs_save(learning_programs(w->learning), &bytes);
    assert_false(str_failed(&bytes));
    assert_int_equal(programs_load(&e, str_text(&bytes), bytes.length, &programs), 0);
    /* Truncated and changed bytes are refused. */
    struct programs *none;
    assert_int_equal(programs_load(&e, str_text(&bytes), bytes.length - 1, &none), -ERR_CORRUPT);
    bytes.data[bytes.length / 2] ^= 1;
    assert_int_equal(programs_load(&e, str_text(&bytes), bytes.length, &none), -ERR_CORRUPT);
    str_clear(&bytes);
    observations_save(learning_measurements(w->learning), &bytes);
    assert_int_equal(observations_load(&e, str_text(&bytes), bytes.length, &measurements), 0);
    str_done(&bytes);
    assert_int_equal(learning_restore(ret->learning, programs, measurements, NULL), 0);
    for (size_t i = PROGRAMS; i-- > 0;)
        ret->kinds[i] = kind_of(ret->learning, i);
    ret->kinds[SERVICE] = service_of(ret->learning, 50);
}

static void restart_keeps_learnt_measurements(void **state)
{
    struct world before, after;
    (void)state;
    open_serving(&before, 50);
    play_alone(&before, 0, 4000);
    play_alone(&before, 1, 4000);
    play_alone(&before, 4, 4000);
    serve_alone(&before, 20, 300, WINDOW_MS + SPAN_MS);
    serve_beside(&before, 0, 30, WINDOW_MS + SPAN_MS);
    play_pair(&before, 0, 1, 1.8, 6000);
    play_pair(&before, 4, 1, 1.2, 6000);
    publish(&before);
    restart(&before, &after);
    assert_int_equal(measured(&after), measured(&before));
    assert_true(pair_pd(&after, 0, 1) == pair_pd(&before, 0, 1));
    assert_true(pair_pd(&after, 4, 1) == pair_pd(&before, 4, 1));
    assert_true(pair_pd(&after, 0, 1) > pair_pd(&after, 4, 1) + 0.5);
    publish(&after); /* the time of the measurement is saved too */
    assert_true(is_p99(&after, false, 20, false) && is_p99(&after, true, 30, false));
    /* Learning continues, because the speed alone is known. */
    play_pair(&after, 4, 0, 1.4, 6000);
    publish(&after);
    assert_true(fabs(pair_pd(&after, 4, 0) - 1.4) < 0.01);
    learning_free(before.learning);
    learning_free(after.learning);
}

/* Version 1 did not save requests; its content is still loaded. */
static void programs_of_older_version_are_loaded(void **state)
{
    struct str bytes;
    struct error e = {0};
    struct programs *programs;
    (void)state;
    str_init(&bytes, PROGRAMS_STORED_MAX);
    size_t start = stored_begin(&bytes, "prog", 1);
    stored_put_u64(&bytes, FEATURES_OWN);
    stored_put_u64(&bytes, 1);
    stored_put_u64(&bytes, 77); /* key and family */
    stored_put_u64(&bytes, 78);
    for (size_t i = 0; i < PROGRAM_NAME_MAX / sizeof(uint64_t); i++)
        stored_put_u64(&bytes, 0);
    stored_put_u64(&bytes, WORKLOAD_SERVICE);
    stored_put_u64(&bytes, 0);    /* batch */
    stored_put_double(&bytes, 1); /* share, SLO */
    stored_put_double(&bytes, 50);
    stored_put_u64(&bytes, (uint64_t)wall_ms);
    stored_put_u64(&bytes, 1); /* one type of device: its hash, speeds, six numbers, features */
    stored_put_u64(&bytes, type.hash);
    stored_put_u64(&bytes, 3);
    for (size_t i = 0; i < 6 + FEATURES_OWN; i++)
        stored_put_double(&bytes, 0.5);
    stored_end(&bytes, start);
    assert_false(str_failed(&bytes));
    if (programs_load(&e, str_text(&bytes), bytes.length, &programs) < 0)
        fail_msg("%s", e.text);
    struct program *p = programs_at(programs, programs_find(programs, 77));
    assert_non_null(p);
    assert_true(p->slo_ms == 50 && p->alone_count == 1 && p->beside_count == 0);
    assert_true(p->alone[0].speeds == 3 && p->alone[0].requests.count == 0);
    programs_free(programs);
    str_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_identity_follows_command_and_label),
        cmocka_unit_test(full_program_table_drops_unused_programs),
        cmocka_unit_test(program_alone_yields_profile),
        cmocka_unit_test(changed_program_is_measured_again),
        cmocka_unit_test(measured_pair_replaces_prediction),
        cmocka_unit_test(outcome_pairs_prediction_with_measurement),
        cmocka_unit_test(unusable_measurements_are_not_learnt),
        cmocka_unit_test(service_p99_alone_is_measured),
        cmocka_unit_test(service_p99_beside_task_is_measured),
        cmocka_unit_test(unknown_task_is_learnt_beside_service),
        cmocka_unit_test(missed_slo_teaches_interference),
        cmocka_unit_test(trained_model_improves_prediction),
        cmocka_unit_test(restart_keeps_learnt_measurements),
        cmocka_unit_test(programs_of_older_version_are_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
