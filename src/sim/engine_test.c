/* engine_test: policies on small traces. */
#include "sim/engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sim/shipped.h"

struct fixture {
    struct truth *truth;
    struct hardware hardware;
    struct trace trace;
    struct engine_config config;
};

static const char *shipped(const char *name, size_t *ret_length)
{
    const char *text = shipped_find(name, ret_length);
    assert_non_null(text);
    return text;
}

static void open_fixture(struct fixture *f, const char *nodes, const char *policy)
{
    struct tables tables = {0};
    size_t length;
    const char *text = shipped("h200_train_solo.csv", &length);
    assert_int_equal(tables_add_solo(NULL, text, length, &tables), 0);
    text = shipped("h200_train_pairs.csv", &length);
    assert_int_equal(tables_add_pairs(NULL, text, length, &tables, NULL), 0);
    text = shipped("noise_scales.csv", &length);
    assert_int_equal(tables_add_noise_scales(NULL, text, length, &tables), 0);
    assert_int_equal(truth_new(NULL, &tables, 0, 1, &f->truth), 0);
    assert_int_equal(hardware_parse(NULL, nodes, &f->hardware), 0);
    engine_config_default(&f->config);
    f->config.truth = f->truth;
    f->config.hardware = &f->hardware;
    f->config.trace = &f->trace;
    f->config.policy = policy_find(policy);
    f->config.seed = 1;
    assert_non_null(f->config.policy);
}

static void read_trace(struct fixture *f, const char *text)
{
    struct trace_mix mix;
    struct error e = {0};
    trace_mix_default(truth_tables(f->truth), &mix);
    assert_int_equal(
        trace_parse(&e, text, strlen(text), truth_tables(f->truth), &mix, 1, &f->trace), 0);
}

static void close_fixture(struct fixture *f)
{
    trace_done(&f->trace);
    truth_free(f->truth);
}

static void alone_it_takes_what_it_takes(void **state)
{
    (void)state;
    struct fixture f;
    struct result r;
    open_fixture(&f, "2xH200", "exclusive");
    read_trace(&f, "submit_s,duration_s,gpus,model\n100,600,1,vgg16\n130,60,2,bert\n");
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    assert_int_equal(r.summary.succeeded, 2);
    assert_true(fabs(r.workloads[0].end_s - 605) < 0.01);
    assert_true(fabs(r.workloads[0].pd - 1) < 1e-3);
    /* Two devices at once: only when the first has left. */
    assert_true(fabs(r.workloads[1].start_s - r.workloads[0].end_s) < 0.01);
    assert_true(fabs(r.workloads[1].end_s - (605 + 65)) < 0.01);
    assert_int_equal(r.span_count, 3);
    assert_true(fabs(r.summary.makespan_s - 670) < 0.01);
    result_done(&r);
    close_fixture(&f);
}

static void together_they_are_as_slow_as_measured(void **state)
{
    (void)state;
    struct fixture f;
    struct result r;
    open_fixture(&f, "1xH200", "firstfit");
    read_trace(&f, "submit_s,duration_s,model,batch\n0,1000,vgg16,512\n0,1000,squeezenet,512\n");
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    /* vgg16 keeps 0.953 until its end at about 1049 s; squeezenet has done 0.192 of that. */
    assert_true(fabs(r.workloads[0].end_s - (5 + 1000 / 0.953)) < 2);
    double left_s = 1000 - 0.192 * 1000 / 0.953;
    assert_true(fabs(r.workloads[1].end_s - (5 + 1000 / 0.953 + left_s)) < 3);
    result_done(&r);
    close_fixture(&f);
}

static void larger_than_a_node(void **state)
{
    (void)state;
    struct fixture f;
    struct result r;
    open_fixture(&f, "3x2xH200", "firstfit");
    read_trace(&f, "submit_s,duration_s,gpus,model\n0,100,1,gin\n1,100,5,bert\n2,100,4,bert\n"
                   "3,50,7,bert\n");
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    assert_int_equal(r.summary.succeeded, 3);
    assert_int_equal(r.summary.failed, 1); /* seven are more than there are */
    assert_int_equal(r.summary.split_count, 2);
    assert_true(r.workloads[1].start_s >= r.workloads[0].end_s);
    assert_true(r.workloads[2].start_s >= r.workloads[1].end_s);
    result_done(&r);
    close_fixture(&f);
}

static void run_tasks(const char *policy, struct result *ret)
{
    struct fixture f;
    struct trace_mix mix;
    size_t length;
    open_fixture(&f, "5x4xH200:24g", policy);
    const char *text = shipped("tasks_300.csv", &length);
    trace_mix_default(truth_tables(f.truth), &mix);
    assert_int_equal(trace_parse(NULL, text, length, truth_tables(f.truth), &mix, 1, &f.trace), 0);
    trace_hasten(&f.trace, 2 / trace_load(&f.trace, f.hardware.device_count));
    assert_true(fabs(trace_load(&f.trace, f.hardware.device_count) - 2) < 1e-9);
    assert_int_equal(engine_run(NULL, &f.config, ret), 0);
    close_fixture(&f);
}

/* Every policy ends every task, and twice gives the same. */
static void policies_are_repeatable(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct result a, b;
        run_tasks(policy_at(i)->name, &a);
        run_tasks(policy_at(i)->name, &b);
        assert_int_equal(a.summary.succeeded, 300);
        assert_int_equal(a.workload_count, b.workload_count);
        assert_memory_equal(&a.summary, &b.summary, sizeof a.summary);
        assert_memory_equal(a.workloads, b.workloads, 300 * sizeof *a.workloads);
        assert_memory_equal(a.points, b.points, a.point_count * sizeof *a.points);
        assert_true(a.summary.sm_mean > 0.1 && a.summary.sm_mean <= 1);
        result_done(&a);
        result_done(&b);
    }
}

static void conserves_work(void **state)
{
    (void)state;
    struct result r;
    run_tasks("exclusive", &r);
    double busy_s = 0, wanted_s = 0;
    for (size_t i = 0; i < r.span_count; i++)
        busy_s += r.spans[i].to_s - r.spans[i].from_s - 5;
    for (size_t i = 0; i < r.workload_count; i++)
        wanted_s += r.workloads[i].alone_s;
    assert_true(fabs(busy_s / wanted_s - 1) < 1e-3);
    result_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_takes_what_it_takes),
        cmocka_unit_test(together_they_are_as_slow_as_measured),
        cmocka_unit_test(larger_than_a_node),
        cmocka_unit_test(policies_are_repeatable),
        cmocka_unit_test(conserves_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
