/* serving_test: services by their shipped profiles. */
#include "sim/serving.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "sim/scenario.h"

static void open_scenario(struct scenario *s)
{
    const struct scenario_words words = {.nodes = "1xH200", .trace = "tasks-300"};
    struct error e = {0};
    assert_int_equal(scenario_open(&e, &words, s), 0);
    assert_int_equal(s->serving->profile_count, 6);
    assert_int_equal(s->serving->step_count, 2016);
}

static void service_latency_grows_under_contention(void **state)
{
    (void)state;
    struct scenario s;
    open_scenario(&s);
    for (size_t i = 0; i < s.serving->profile_count; i++) {
        const struct serving_profile *p = &s.serving->profiles[i];
        double busy_before = 0;
        for (double rate = p->rate_per_s / 8; rate < 2 * p->rate_per_s; rate *= 1.3) {
            struct serving_state at = serving_at(p, rate, 1, 1, 0);
            assert_true(at.p99_ms < p->slo_ms);
            assert_true(at.late < 0.01 && at.late >= 0);
            assert_true(at.busy > 0 && at.busy < 1);
            assert_true(serving_at(p, rate, 0.2, 1, 0).p99_ms >= at.p99_ms);
            assert_true(serving_at(p, rate, 1, 1.5, 0.3).p99_ms > at.p99_ms);
            busy_before = at.busy;
        }
        assert_true(busy_before > 0);
        struct serving_state flood = serving_at(p, 1e6, 1, 1, 0);
        assert_true(flood.late == 1 && isinf(flood.p99_ms));
    }
    scenario_done(&s);
}

static void service_share_is_minimal_for_slo(void **state)
{
    (void)state;
    struct scenario s;
    open_scenario(&s);
    for (size_t i = 0; i < s.serving->profile_count; i++) {
        const struct serving_profile *p = &s.serving->profiles[i];
        double share = serving_share(p, p->rate_per_s, 1.05, 0.8);
        assert_true(share <= 1);
        assert_true(serving_at(p, p->rate_per_s, share, 1.05, 0).p99_ms <= 0.8 * p->slo_ms);
        if (share > 0.05)
            assert_true(serving_at(p, p->rate_per_s, share - 0.05, 1.05, 0).p99_ms >
                        0.8 * p->slo_ms);
        assert_true(serving_share(p, 1e6, 1, 0.8) > 1);
        struct pwl_curve curve;
        serving_curve(p, 4, 1.05, &curve);
        assert_true(curve.left_slope <= curve.right_slope && curve.right_slope <= 0);
    }
    scenario_done(&s);
}

static void protected_service_meets_slo_beside_task(void **state)
{
    (void)state;
    struct scenario s;
    open_scenario(&s);
    const struct hardware_gpu *gpu = hardware_gpu_at(0);
    int vgg = tables_find(truth_tables(s.truth), "vgg16");
    struct truth_resident task = {.model = (size_t)vgg, .batch = 512, .speed = 1};
    const struct serving_profile *p = &s.serving->profiles[0];
    const struct serving_ways none = {0}, both = {.time = true, .space = true};
    double rate = p->rate_per_s;
    struct serving_device together = serving_choose(s.truth, gpu, p, rate, &none, &task, 1, 1, 0);
    struct serving_device divided = serving_choose(s.truth, gpu, p, rate, &both, &task, 1, 1, 0);
    assert_int_equal(together.mode, SERVING_TOGETHER);
    assert_int_not_equal(divided.mode, SERVING_TOGETHER);
    assert_true(divided.state.p99_ms <= 0.8 * p->slo_ms);
    assert_true(divided.state.p99_ms < together.state.p99_ms);
    assert_true(divided.available > 0.3 && divided.available < 1);
    /* Alone, a service has the whole device in every mode. */
    struct serving_device alone = serving_choose(s.truth, gpu, p, rate, &both, &task, 0, 1, 0);
    assert_true(alone.state.p99_ms < divided.state.p99_ms);
    /* Other services on the device slow it. */
    assert_true(serving_choose(s.truth, gpu, p, rate, &both, &task, 0, 1, 0.5).state.p99_ms >
                alone.state.p99_ms);
    struct table_size size = truth_alone(s.truth, gpu, task.model, 512);
    assert_true(serving_squeeze(&size, 1) == 1);
    assert_true(serving_squeeze(&size, 0.5) > 1.5);
    scenario_done(&s);
}

static void request_rate_follows_daily_shape(void **state)
{
    (void)state;
    struct scenario s;
    open_scenario(&s);
    for (uint64_t instance = 0; instance < 5; instance++) {
        double sum = 0, most = 0;
        for (size_t step = 0; step < s.serving->step_count; step++) {
            double rate = serving_rate(s.serving, 0, instance, (double)step * SERVING_STEP_S);
            sum += rate;
            most = fmax(most, rate);
        }
        double mean = sum / (double)s.serving->step_count;
        assert_true(fabs(mean / s.serving->profiles[0].rate_per_s - 1) < 0.01);
        assert_true(most > 1.5 * mean);
    }
    scenario_done(&s);
}

static void service_table_invalid_is_refused(void **state)
{
    (void)state;
    struct scenario s;
    static struct serving serving;
    static const char head[] =
        "service,base_ms,request_ms,width,dram,memory_mib,rate_per_s,slo_ms,like\n";
    static const char unknown[] =
        "service,base_ms,request_ms,width,dram,memory_mib,rate_per_s,slo_ms,like\n"
        "a,1,1,1,1,1,1,1,gpt\n";
    static const char rates[] = "t_s,large,middle,small\n0,1,1,1\n";
    open_scenario(&s);
    const struct tables *t = truth_tables(s.truth);
    assert_int_equal(serving_load(NULL, t, head, strlen(head), rates, strlen(rates), &serving),
                     -ERR_INVALID);
    assert_int_equal(
        serving_load(NULL, t, unknown, strlen(unknown), rates, strlen(rates), &serving),
        -ERR_SYNTAX);
    assert_int_equal(serving_load(NULL, t, "", 0, rates, strlen(rates), &serving), -ERR_SYNTAX);
    scenario_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(service_latency_grows_under_contention),
        cmocka_unit_test(service_share_is_minimal_for_slo),
        cmocka_unit_test(protected_service_meets_slo_beside_task),
        cmocka_unit_test(request_rate_follows_daily_shape),
        cmocka_unit_test(service_table_invalid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
