/* The controller in simulated pairs of services and tasks, against each fixed setting. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/controller_fixture.h"
#include "device/controller_internal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 24 };
#else
enum { SEEDS = 200 };
#endif

static const double SETTLE_S = 15, RUN_S = 40;

static bool is_verbose(void)
{
    return getenv("GPUMUX_VERBOSE") != NULL;
}

static int first_seed(void)
{
    const char *seed = getenv("GPUMUX_SEED");
    return seed ? (int)(strtoul(seed, NULL, 10) % 1000000000) : 0;
}

/* Excess of late requests, or of latency without an SLO, over the allowed one. */
static double excess(const struct scenario *s, const struct outcome *o, double alone_us)
{
    return s->slo_us > 0 ? o->late / s->allowed : (o->latency / alone_us - 1) / 0.1;
}

struct trial {
    struct scenario s;
    struct outcome fixed[CONTROLLER_SETTINGS], controlled;
    double alone_us;
    int best; /* fastest fixed setting that keeps the target; -1: none */
};

static void draw(struct trial *t, uint64_t seed, struct controller_solo *ret_solo)
{
    struct rng r;
    rng_seed(&r, seed + 99);
    scenario_draw(&t->s, seed);
    double factor = 1.2 * pow(8, rng_double(&r));
    *ret_solo = world_solo(&t->s, seed);
    t->alone_us = ret_solo->latency_us;
    t->s.slo_us = t->s.reports ? factor * t->alone_us : 0;
    ret_solo->latency_us = 0;
}

static void try_seed(struct trial *t, uint64_t seed)
{
    static struct loop l;
    static struct controller_memory memory;
    struct controller_solo solo;
    draw(t, seed, &solo);
    solo.latency_us = t->alone_us;
    t->best = -1;
    for (int s = 0; s < CONTROLLER_SETTINGS; s++) {
        t->fixed[s] = run_fixed(&t->s, seed, s, &solo, SETTLE_S, RUN_S);
        bool is_allowed = t->s.slo_us > 0 || s <= CONTROLLER_STRICT_100;
        if (is_allowed && excess(&t->s, &t->fixed[s], t->alone_us) <= 0.7 &&
            (t->best < 0 || t->fixed[s].speed > t->fixed[t->best].speed))
            t->best = s;
    }
    controller_memory_init(&memory);
    loop_init(&l, &t->s, seed, &memory);
    l.is_traced = getenv("GPUMUX_TRACE") && (uint64_t)atoll(getenv("GPUMUX_TRACE")) == seed;
    loop_run(&l, SETTLE_S);
    loop_clear(&l);
    loop_run(&l, RUN_S);
    t->controlled = loop_outcome(&l);
}

static void print_trial(const struct trial *t, int seed)
{
    const struct outcome *o = &t->controlled;
    printf("%3d %-6s %s rate %5.1f busy %.2f slo %4.1fx allow %.2f | best %2d speed %.3f | got %2d "
           "%.3f x %.3f excess %6.2f ch %4.1f %s|",
           seed, t->s.name, t->s.has_mps ? "mps" : "   ", t->s.rate,
           t->s.rate * t->s.request_us / 1e6, t->s.slo_us / t->alone_us, t->s.allowed, t->best,
           t->best >= 0 ? t->fixed[t->best].speed : 0, o->setting, o->speed,
           t->best >= 0 ? o->speed / t->fixed[t->best].speed : 0, excess(&t->s, o, t->alone_us),
           o->changes_per_minute, o->is_unreachable ? "unreachable " : "");
    for (int s = 0; s < CONTROLLER_SETTINGS; s++)
        printf(" %.2f/%.1f", t->fixed[s].speed, excess(&t->s, &t->fixed[s], t->alone_us));
    printf("\n");
}

/* Results over the pairs that report requests, and over the others. */
struct tally {
    int with_best, fast, kept;
};

static void count_trial(struct tally *tally, const struct trial *t)
{
    if (t->best < 0)
        return;
    tally->with_best++;
    tally->fast += t->controlled.speed >= 0.97 * t->fixed[t->best].speed;
    tally->kept += excess(&t->s, &t->controlled, t->alone_us) <= 1.4;
}

static void assert_tally(const char *name, const struct tally *tally)
{
    printf("%s: of %d pairs with a setting that keeps the target %d are fast, %d kept\n", name,
           tally->with_best, tally->fast, tally->kept);
    assert_true(tally->with_best > 0);
    assert_true(tally->fast >= 0.9 * tally->with_best - 1);
    assert_true(tally->kept >= 0.94 * tally->with_best - 1);
}

static void controller_matches_best_fixed_setting(void **state)
{
    struct tally reported = {0}, bursts = {0};
    double changes = 0;
    (void)state;
    for (int seed = first_seed(); seed < first_seed() + SEEDS; seed++) {
        struct trial t;
        try_seed(&t, (uint64_t)seed);
        if (is_verbose())
            print_trial(&t, seed);
        changes = fmax(changes, t.controlled.changes_per_minute);
        count_trial(t.s.reports ? &reported : &bursts, &t);
        if (!t.s.reports) {
            assert_in_range(t.controlled.setting, 0, CONTROLLER_STRICT_100);
            assert_true(t.controlled.paused <= 0);
        }
    }
    printf("at most %.1f changes per minute after %.0f s\n", changes, SETTLE_S);
    assert_tally("reported requests", &reported);
    assert_tally("bursts alone", &bursts);
    assert_true(changes <= 30);
}

/* ---- single properties ---- */

/* A service that fills the device in bursts beside a task that harms the service without a gate. */
static struct scenario bursty(void)
{
    return (struct scenario){.name = "bursty",
                             .request_us = 1200,
                             .spread = 0.1,
                             .rate = 60,
                             .slo_us = 3000,
                             .allowed = 0.01,
                             .reports = true,
                             .has_mps = true,
                             .share = 0.3,
                             .task_share = 0.6,
                             .kernel_us = 300,
                             .wait = 0.2,
                             .depth_us = 10000,
                             .bubble_us = 10};
}

static void load_step_is_answered_within_2_s(void **state)
{
    static struct loop l;
    static struct controller_memory memory;
    int kept = 0, count = 40;
    (void)state;
    for (int seed = 0; seed < count; seed++) {
        struct scenario s = bursty();
        s.slo_us = 5000;
        controller_memory_init(&memory);
        loop_init(&l, &s, (uint64_t)seed, &memory);
        l.is_traced = is_verbose() && seed < 4;
        loop_run(&l, 20);
        l.w.s.rate *= 3;
        loop_run(&l, 2);
        loop_clear(&l);
        loop_run(&l, 10);
        struct outcome o = loop_outcome(&l);
        kept += o.late <= 1.4 * s.allowed;
        if (is_verbose())
            printf("load step %d: late %.4f speed %.3f at the end %s\n", seed, o.late, o.speed,
                   o.why);
    }
    if (is_verbose())
        printf("load step: %d of %d kept\n", kept, count);
    assert_true(kept >= count * 9 / 10);
}

static void changes_are_bounded_beside_a_restless_load(void **state)
{
    static struct loop l;
    static struct controller_memory memory;
    struct scenario s = bursty();
    (void)state;
    for (int seed = 0; seed < 10; seed++) {
        controller_memory_init(&memory);
        loop_init(&l, &s, (uint64_t)seed, &memory);
        loop_run(&l, 20);
        loop_clear(&l);
        for (int i = 0; i < 40; i++) {
            l.w.s.rate = s.rate * (i % 2 ? 2.5 : 0.7);
            loop_run(&l, 3);
        }
        if (is_verbose())
            printf("restless %d: %.1f changes per minute\n", seed,
                   loop_outcome(&l).changes_per_minute);
        assert_true(loop_outcome(&l).changes_per_minute <= 30);
    }
}

/* A service that is asked for seconds and then silent keeps its setting over the silence. */
static void silence_changes_no_setting(void **state)
{
    enum { ROUNDS = 12, SILENCE_US = 12000000 };
    static struct loop l;
    static struct controller_memory memory;
    struct scenario s = bursty();
    double late = 0, answered = 0;
    (void)state;
    for (int seed = 0; seed < 10; seed++) {
        controller_memory_init(&memory);
        loop_init(&l, &s, (uint64_t)seed, &memory);
        loop_run(&l, 20);
        loop_clear(&l);
        for (int i = 0; i < ROUNDS; i++) {
            l.w.next_arrival_us = l.w.now_us + SILENCE_US;
            loop_run(&l, SILENCE_US / 1e6 + 4);
        }
        if (is_verbose())
            printf("silence %d: late %.4f, %d changes\n", seed, l.late / l.answered, l.changes);
        late += l.late;
        answered += l.answered;
        assert_true(l.changes <= 2 * ROUNDS);
    }
    assert_true(late <= 1.4 * s.allowed * answered);
}

/* While the host is slow, requests are late under every setting; no setting keeps the blame. */
static void slow_host_blames_no_setting(void **state)
{
    static struct loop l;
    static struct controller_memory memory;
    struct scenario s = bursty();
    int back = 0;
    (void)state;
    s.share = 0.95; /* as of a service that is bound by its host */
    s.task_share = 0.95;
    s.wait = 0;
    for (int seed = 0; seed < 10; seed++) {
        controller_memory_init(&memory);
        loop_init(&l, &s, (uint64_t)seed, &memory);
        loop_run(&l, 20);
        l.w.s.request_us *= 4;
        loop_run(&l, 12);
        l.w.s.request_us /= 4;
        loop_run(&l, 20);
        if (is_verbose())
            printf("slow host %d: at the end %s\n", seed, l.answer.why);
        back += l.answer.setting == CONTROLLER_FREE;
    }
    assert_true(back >= 8);
}

/* Tasks that rest between rounds of work, as during an evaluation, do not make a setting slow. */
static void resting_tasks_leave_speeds_alone(void **state)
{
    enum { ROUNDS = 10, REST_US = 8000000 };
    static struct loop l;
    static struct controller_memory memory;
    struct scenario s = bursty();
    struct controller_solo solo = {0};
    (void)state;
    s.share = 0.95;
    s.task_share = 0.95;
    s.wait = 0;
    for (int seed = 0; seed < 10; seed++) {
        double best = run_fixed(&s, (uint64_t)seed, CONTROLLER_FREE, &solo, 2, 20).speed;
        controller_memory_init(&memory);
        loop_init(&l, &s, (uint64_t)seed, &memory);
        for (int i = 0; i < ROUNDS; i++) {
            loop_run(&l, 6);
            l.tasks_rest = true;
            l.w.next_arrival_us = l.w.now_us + REST_US;
            loop_run(&l, REST_US / 1e6);
            l.tasks_rest = false;
        }
        loop_clear(&l);
        loop_run(&l, 20);
        if (is_verbose())
            printf("resting %d: %.3f of %.3f, at the end %s\n", seed, loop_outcome(&l).speed, best,
                   l.answer.why);
        assert_true(loop_outcome(&l).speed >= 0.97 * best);
    }
}

static void idle_service_is_measured_when_it_works(void **state)
{
    static struct loop l;
    static struct controller_memory memory;
    struct scenario s = bursty();
    (void)state;
    s.rate = 0.01;
    s.reports = false;
    s.slo_us = 0;
    controller_memory_init(&memory);
    loop_init(&l, &s, 3, &memory);
    loop_run(&l, 20);
    assert_true(l.answer.allowed_stretch <= 0);
    l.w.s.rate = 60;
    l.w.next_arrival_us = l.w.now_us;
    loop_run(&l, 15);
    assert_true(l.answer.allowed_stretch > 1);
    assert_int_not_equal(l.answer.setting, CONTROLLER_FREE);
}

static void unreachable_target_never_pauses_tasks(void **state)
{
    static struct loop l;
    static struct controller_memory memory;
    (void)state;
    for (int seed = 0; seed < 20; seed++) {
        struct scenario s = bursty();
        s.slo_us = 900;
        controller_memory_init(&memory);
        loop_init(&l, &s, (uint64_t)seed, &memory);
        loop_run(&l, 2);
        loop_clear(&l);
        loop_run(&l, 30);
        assert_true(l.answer.is_unreachable);
        assert_int_equal(l.paused_looks, 0);
        assert_true(strstr(l.answer.why, "without tasks") != NULL);
    }
}

static void memory_is_used_at_once(void **state)
{
    static struct loop l;
    static struct controller_memory memory, restored;
    struct scenario s = bursty();
    (void)state;
    controller_memory_init(&memory);
    loop_init(&l, &s, 1, &memory);
    loop_run(&l, 40);
    int settled = l.c.memory->pairs[l.c.pair].setting;
    memcpy(&restored, &memory, sizeof memory);
    assert_true(controller_memory_is_sane(&restored));
    loop_init(&l, &s, 2, &restored);
    loop_run(&l, 0.15);
    assert_int_equal(l.answer.setting, settled);
    assert_false(l.answer.is_learning);
    restored.pairs[l.c.pair].records[0].work = NAN;
    assert_false(controller_memory_is_sane(&restored));
}

static void neighbours_that_return_get_their_setting(void **state)
{
    static struct loop l;
    static struct controller_memory memory;
    struct scenario s = bursty();
    (void)state;
    controller_memory_init(&memory);
    loop_init(&l, &s, 5, &memory);
    loop_run(&l, 30);
    int settled = l.c.memory->pairs[l.c.pair].setting;
    l.neighbours = 0;
    loop_run(&l, 5);
    assert_int_equal(l.answer.setting, CONTROLLER_FREE);
    l.neighbours = 7;
    loop_run(&l, 0.15);
    assert_int_equal(l.answer.setting, settled);
}

static void failed_pause_gives_up_after_10_s(void **state)
{
    static struct controller_memory memory;
    struct controller c;
    struct controller_answer answer;
    struct controller_look look = {.service = 1,
                                   .slo_us = 1000,
                                   .has_requests = true,
                                   .answered = 20,
                                   .busy_fraction = 0.1,
                                   .work = 1};
    int64_t paused_ms = 0;
    (void)state;
    controller_memory_init(&memory);
    controller_init(&c, &memory);
    for (; look.now_ms < 5000; look.now_ms += 150)
        controller_look(&c, &look, &answer);
    look.neighbours = 2;
    look.late = 10;
    do {
        look.now_ms += 150;
        controller_look(&c, &look, &answer);
        if (answer.limits.is_paused && !answer.is_learning && !paused_ms)
            paused_ms = look.now_ms;
        if (answer.gives_up)
            assert_true(paused_ms && look.now_ms - paused_ms >= CONTROLLER_GIVE_UP_MS);
    } while (!answer.gives_up && look.now_ms < 60000);
    assert_true(answer.gives_up);
    assert_false(answer.is_unreachable);
}

static void stricter_limits_protect_both_services(void **state)
{
    struct controller_limits free = {.window_us = 20000};
    struct controller_limits due = {.has_gate = true,
                                    .rule = CONTROLLER_RULE_DUE,
                                    .window_us = 1000,
                                    .need_us = 5000,
                                    .each_us = 10,
                                    .burst_us = 900};
    struct controller_limits due2 = due, strict = {.has_gate = true, .window_us = 250};
    (void)state;
    due2.need_us = 6000;
    due2.burst_us = 100;
    struct controller_limits both = controller_stricter(&free, &due);
    assert_int_equal(both.rule, CONTROLLER_RULE_DUE);
    assert_int_equal(both.need_us, 5000);
    assert_int_equal(both.burst_us, 900);
    both = controller_stricter(&due2, &due);
    assert_int_equal(both.need_us, 6000);
    assert_int_equal(both.burst_us, 100);
    both = controller_stricter(&due, &strict);
    assert_int_equal(both.rule, CONTROLLER_RULE_BUSY);
    assert_int_equal(both.window_us, 250);
    strict.rate_permille = 100;
    both = controller_stricter(&strict, &free);
    assert_true(both.has_gate);
    assert_int_equal(both.rate_permille, 100);
}

static double strange(struct rng *r)
{
    static const double VALUES[] = {0, -1, 1, 1e-300, 1e300, 99, 1000, 1e6, NAN, INFINITY};
    size_t i = rng_below(r, sizeof VALUES / sizeof VALUES[0] + 4);
    return i < sizeof VALUES / sizeof VALUES[0] ? VALUES[i] : 1e5 * rng_double(r);
}

static uint64_t strange_count(struct rng *r)
{
    return rng_u64(r) >> rng_below(r, 64);
}

static void assert_answer_is_sane(const struct controller_answer *a)
{
    assert_in_range(a->setting, 0, CONTROLLER_SETTINGS - 1);
    assert_in_range(a->limits.window_us, 100, 20000);
    assert_true(a->limits.rate_permille <= 500);
    assert_true(a->limits.need_us <= 1100000000);
    assert_true(strlen(a->why) > 0 && strlen(a->why) < CONTROLLER_WHY_MAX);
    assert_true(a->limits.is_paused == (a->setting == CONTROLLER_PAUSE));
}

static void random_looks_never_break_the_controller(void **state)
{
    static struct controller_memory memory;
    struct controller c;
    struct controller_answer answer;
    struct rng r;
    (void)state;
    rng_seed(&r, 42);
    controller_memory_init(&memory);
    controller_init(&c, &memory);
    struct controller_look look = {0};
    for (int i = 0; i < 20000; i++) {
        look.now_ms += (int64_t)rng_below(&r, rng_below(&r, 50) ? 300 : 100000);
        look.service = 1 + (rng_below(&r, 300) == 0 ? rng_below(&r, 400) : look.service % 7);
        look.neighbours = rng_below(&r, 100) ? look.neighbours : rng_below(&r, 3);
        look.slo_us = rng_below(&r, 20) ? look.slo_us : strange(&r);
        look.percentile = rng_below(&r, 20) ? look.percentile : strange(&r);
        look.has_mps = rng_below(&r, 2);
        look.reports_requests = rng_below(&r, 2);
        look.has_requests = rng_below(&r, 2);
        look.answered = strange_count(&r);
        look.late = strange_count(&r);
        look.latency_us = strange(&r);
        look.latency_window_ms = (int64_t)strange_count(&r);
        look.busy_fraction = strange(&r);
        look.work = strange(&r);
        look.kernel_us = strange(&r);
        for (int k = 0; k < CONTROLLER_KINDS; k++) {
            look.alone[k] = (struct controller_bursts){strange_count(&r), strange_count(&r)};
            look.beside[k] = (struct controller_bursts){strange_count(&r), strange_count(&r)};
        }
        controller_look(&c, &look, &answer);
        assert_answer_is_sane(&answer);
        assert_true(i % 500 || controller_memory_is_sane(&memory));
    }
}

static void task_speed_is_relative_to_fastest(void **state)
{
    (void)state;
    struct controller_pair pair = {.service = 1};
    struct controller_record *records = pair.records;
    assert_true(controller_pair_fraction(&pair, CONTROLLER_DUE) == -1);
    assert_true(controller_pair_fraction(&pair, CONTROLLER_PAUSE) == 0);
    records[CONTROLLER_DUE] = (struct controller_record){.work = 3000, .work_ms = 2000};
    assert_true(controller_pair_fraction(&pair, CONTROLLER_DUE) == 1);
    records[CONTROLLER_FREE] = (struct controller_record){.work = 2000, .work_ms = 1000};
    records[CONTROLLER_STRICT_250] = (struct controller_record){.work = 900, .work_ms = 100};
    assert_true(controller_pair_fraction(&pair, CONTROLLER_DUE) == 0.75);
    assert_true(controller_pair_fraction(&pair, CONTROLLER_STRICT_250) == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controller_matches_best_fixed_setting),
        cmocka_unit_test(load_step_is_answered_within_2_s),
        cmocka_unit_test(changes_are_bounded_beside_a_restless_load),
        cmocka_unit_test(silence_changes_no_setting),
        cmocka_unit_test(slow_host_blames_no_setting),
        cmocka_unit_test(resting_tasks_leave_speeds_alone),
        cmocka_unit_test(idle_service_is_measured_when_it_works),
        cmocka_unit_test(unreachable_target_never_pauses_tasks),
        cmocka_unit_test(memory_is_used_at_once),
        cmocka_unit_test(neighbours_that_return_get_their_setting),
        cmocka_unit_test(failed_pause_gives_up_after_10_s),
        cmocka_unit_test(stricter_limits_protect_both_services),
        cmocka_unit_test(random_looks_never_break_the_controller),
        cmocka_unit_test(task_speed_is_relative_to_fastest),
    };
    return cmocka_run_group_tests_name("controller", tests, NULL, NULL);
}
