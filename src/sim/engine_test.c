/* engine_test: policies on small traces. */
#include "sim/engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sim/scenario.h"

struct fixture {
    struct scenario scenario;
    struct trace trace; /* for tests with a trace of their own */
    struct engine_config config;
};

static void open_fixture(struct fixture *f, const char *nodes, const char *policy)
{
    const struct scenario_words words = {.nodes = nodes, .trace = "tasks-300", .seed = 1};
    assert_int_equal(scenario_open(NULL, &words, &f->scenario), 0);
    f->trace = (struct trace){0};
    engine_config_default(&f->config);
    f->config.truth = f->scenario.truth;
    f->config.hardware = &f->scenario.hardware;
    f->config.serving = f->scenario.serving;
    f->config.trace = &f->scenario.trace;
    f->config.policy = policy_find(policy);
    f->config.seed = 1;
    assert_non_null(f->config.policy);
}

static void read_trace(struct fixture *f, const char *text)
{
    struct trace_mix mix;
    struct error e = {0};
    trace_mix_default(truth_tables(f->scenario.truth), &mix);
    assert_int_equal(
        trace_parse(&e, text, strlen(text), truth_tables(f->scenario.truth), &mix, 1, &f->trace),
        0);
    f->config.trace = &f->trace;
}

static void close_fixture(struct fixture *f)
{
    trace_done(&f->trace);
    scenario_done(&f->scenario);
}

static void task_alone_takes_nominal_duration(void **state)
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
    /* A task of two devices starts when the first task has left. */
    assert_true(fabs(r.workloads[1].start_s - r.workloads[0].end_s) < 0.01);
    assert_true(fabs(r.workloads[1].end_s - (605 + 65)) < 0.01);
    assert_int_equal(r.span_count, 3);
    assert_true(fabs(r.summary.makespan_s - 670) < 0.01);
    result_done(&r);
    close_fixture(&f);
}

static void co_located_tasks_slow_as_measured(void **state)
{
    (void)state;
    struct fixture f;
    struct result r;
    open_fixture(&f, "1xH200", "firstfit");
    read_trace(&f, "submit_s,duration_s,model,batch\n0,1000,vgg16,512\n0,1000,squeezenet,512\n");
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    /* vgg16 keeps a speed of 0.953 until its end at about 1049 s; squeezenet runs at 0.192
     * meanwhile. */
    assert_true(fabs(r.workloads[0].end_s - (5 + 1000 / 0.953)) < 2);
    double left_s = 1000 - 0.192 * 1000 / 0.953;
    assert_true(fabs(r.workloads[1].end_s - (5 + 1000 / 0.953 + left_s)) < 3);
    result_done(&r);
    close_fixture(&f);
}

static void task_beyond_node_is_split(void **state)
{
    (void)state;
    struct fixture f;
    struct result r;
    open_fixture(&f, "3x2xH200", "firstfit");
    read_trace(&f, "submit_s,duration_s,gpus,model\n0,100,1,gin\n1,100,5,bert\n2,100,4,bert\n"
                   "3,50,7,bert\n");
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    assert_int_equal(r.summary.succeeded, 3);
    assert_int_equal(r.summary.failed, 1); /* seven devices exceed the cluster */
    assert_int_equal(r.summary.split_count, 2);
    assert_true(r.workloads[1].start_s >= r.workloads[0].end_s);
    assert_true(r.workloads[2].start_s >= r.workloads[1].end_s);
    result_done(&r);
    close_fixture(&f);
}

/* The first of the 300 tasks, at twice the load that the devices alone could sustain. */
#ifdef __SANITIZE_THREAD__ /* slow, and the first few tasks suffice */
enum { TASKS = 24 };
#else
enum { TASKS = 40 };
#endif
static void run_tasks(const char *policy, size_t services, double faults, struct result *ret)
{
    struct fixture f;
    open_fixture(&f, "1x4xH200:24g", policy);
    assert_int_equal(trace_resize(&f.scenario.trace, TASKS), 0);
    double load = trace_load(&f.scenario.trace, f.scenario.hardware.device_count);
    trace_hasten(&f.scenario.trace, 2 / load);
    f.config.service_count = services;
    f.config.faults_per_device_day = faults;
    assert_int_equal(engine_run(NULL, &f.config, ret), 0);
    close_fixture(&f);
}

static void policies_finish_all_tasks_repeatably(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct result a, b;
        run_tasks(policy_at(i)->name, 0, 0, &a);
        run_tasks(policy_at(i)->name, 0, 0, &b);
        assert_int_equal(a.summary.succeeded, TASKS);
        assert_int_equal(a.workload_count, b.workload_count);
        assert_memory_equal(&a.summary, &b.summary, sizeof a.summary);
        assert_memory_equal(a.workloads, b.workloads, TASKS * sizeof *a.workloads);
        assert_memory_equal(a.points, b.points, a.point_count * sizeof *a.points);
        assert_true(a.summary.sm_mean > 0.1 && a.summary.sm_mean <= 1);
        result_done(&a);
        result_done(&b);
    }
}

static void simulation_conserves_work(void **state)
{
    (void)state;
    struct result r;
    run_tasks("exclusive", 0, 0, &r);
    double busy_s = 0, wanted_s = 0;
    for (size_t i = 0; i < r.span_count; i++)
        busy_s += r.spans[i].to_s - r.spans[i].from_s - 5;
    for (size_t i = 0; i < r.workload_count; i++)
        wanted_s += r.workloads[i].alone_s;
    assert_true(fabs(busy_s / wanted_s - 1) < 1e-3);
    result_done(&r);
}

/* Compares policies by the order that the papers and common sense predict. */
static void policies_rank_as_expected(void **state)
{
    (void)state;
    static const char *const names[] = {"oracle", "gpumux", "kernelest", "exclusive"};
    double before_s = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct result r;
        run_tasks(names[i], 0, 0, &r);
        assert_true(r.summary.completion.mean_s > before_s);
        before_s = r.summary.completion.mean_s;
        result_done(&r);
    }
}

static void services_meet_slo_beside_tasks(void **state)
{
    (void)state;
    static const char *const names[] = {"gpumux", "mudi", "muxflow", "mps"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct result r;
        run_tasks(names[i], 2, 0, &r);
        assert_int_equal(r.workload_count, TASKS + 2);
        assert_int_equal(r.summary.succeeded, TASKS);
        for (size_t w = 0; w < 2; w++) {
            assert_int_equal(r.workloads[w].kind, WORKLOAD_SERVICE);
            assert_int_equal(r.workloads[w].state, WORKLOAD_RUNNING);
            assert_true(r.workloads[w].requests > r.workloads[w].late_requests);
            bool stays = false;
            for (size_t n = 0; n < r.span_count; n++)
                stays =
                    stays || (r.spans[n].workload == w && r.spans[n].to_s == r.summary.makespan_s);
            assert_true(stays);
        }
        if (i < 3)
            assert_true(r.summary.late_requests <= 0.012 * r.summary.requests);
        result_done(&r);
    }
}

static void engine_explains_chosen_decision(void **state)
{
    (void)state;
    struct fixture f;
    struct result r;
    static struct cluster_explanation explanation;
    open_fixture(&f, "1x4xH200:24g", "gpumux");
    assert_int_equal(trace_resize(&f.scenario.trace, 10), 0);
    f.config.explain = 7;
    f.config.explanation = &explanation;
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    assert_true(explanation.count > 0 && explanation.text[0]);
    assert_true(explanation.candidates[0].judged && explanation.candidates[0].pd > 0);
    assert_true(r.summary.decisions >= 10);
    result_done(&r);
    close_fixture(&f);
}

static void tasks_end_despite_faults(void **state)
{
    (void)state;
    static const char *const names[] = {"exclusive", "firstfit", "muxflow"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct result calm, a, b;
        run_tasks(names[i], 1, 0, &calm);
        run_tasks(names[i], 1, 80, &a);
        run_tasks(names[i], 1, 80, &b);
        assert_true(a.summary.faults > 10 && a.summary.evictions > calm.summary.evictions);
        assert_int_equal(a.summary.unfinished, 0);
        assert_int_equal(a.summary.succeeded + a.summary.failed, TASKS);
        assert_true(a.summary.failed <= 10); /* by three own faults */
        if (i == 0)                          /* exclusive devices: only lost work costs time */
            assert_true(a.summary.pd_mean > calm.summary.pd_mean + 0.01);
        assert_memory_equal(&a.summary, &b.summary, sizeof a.summary);
        result_done(&calm);
        result_done(&a);
        result_done(&b);
    }
}

/* Counts the gaps between two stays of a workload. */
static size_t count_gaps(const struct result *r, uint32_t workload, double least_s, double most_s)
{
    size_t count = 0;
    for (size_t i = 0; i < r->span_count; i++) {
        double after_s = INFINITY;
        if (r->spans[i].workload != workload)
            continue;
        for (size_t k = 0; k < r->span_count; k++)
            if (r->spans[k].workload == workload && r->spans[k].from_s >= r->spans[i].to_s)
                after_s = fmin(after_s, r->spans[k].from_s - r->spans[i].to_s);
        count += after_s >= least_s && after_s <= most_s;
    }
    return count;
}

/* A node falls silent: its tasks are given up after the lease and the periods after it, then start
 * elsewhere. A service is given up after the lease. */
static void silent_node_loses_work_after_lease(void **state)
{
    (void)state;
    struct cluster_config cluster;
    struct fixture f;
    struct result r;
    cluster_config_default(&cluster);
    double lease_s = (double)cluster.lease_ms / 1000, beat_s = lease_s / 2;
    double lost_s =
        lease_s + (double)(cluster.fence_ms + cluster.drain_ms + cluster.margin_ms) / 1000;
    open_fixture(&f, "12x1xH200", "exclusive");
    read_trace(&f, "submit_s,duration_s,gpus,model\n100,20000,1,vgg16\n");
    f.config.service_count = 1;
    f.config.outages_per_node_day = 24;
    f.config.outage_mean_s = 1800;
    assert_int_equal(engine_run(NULL, &f.config, &r), 0);
    assert_int_equal(r.summary.succeeded, 1);
    assert_true(r.summary.outages > 20 && r.workloads[1].attempts > 1);
    assert_int_equal(r.workloads[1].evictions, r.workloads[1].attempts - 1);
    assert_true(count_gaps(&r, 1, lost_s - beat_s, lost_s) > 0);
    assert_true(count_gaps(&r, 0, lease_s - beat_s, lease_s) > 0);
    result_done(&r);
    close_fixture(&f);
}

/* Outages, faults and tasks of several nodes together: all tasks end, and two runs agree. */
static void tasks_end_despite_outages(void **state)
{
    (void)state;
    struct result results[2];
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        open_fixture(&f, "4x2xH200:24g", "gpumux");
        assert_int_equal(trace_resize(&f.scenario.trace, TASKS / 2), 0);
        trace_hasten(&f.scenario.trace, 2 / trace_load(&f.scenario.trace, 8));
        f.scenario.trace.items[TASKS / 4].devices = 4;
        f.config.service_count = 2;
        f.config.faults_per_device_day = 20;
        f.config.outages_per_node_day = 60;
        f.config.outage_mean_s = 150; /* some return before the lease expires */
        assert_int_equal(engine_run(NULL, &f.config, &results[i]), 0);
        close_fixture(&f);
    }
    assert_true(results[0].summary.outages > 5 && results[0].summary.split_count == 1);
    assert_int_equal(results[0].summary.unfinished, 0);
    assert_int_equal(results[0].summary.succeeded + results[0].summary.failed, TASKS / 2);
    assert_true(results[0].summary.failed <= 5);
    assert_memory_equal(&results[0].summary, &results[1].summary, sizeof results[0].summary);
    assert_int_equal(results[0].span_count, results[1].span_count);
    assert_memory_equal(results[0].spans, results[1].spans,
                        results[0].span_count * sizeof *results[0].spans);
    result_done(&results[0]);
    result_done(&results[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(task_alone_takes_nominal_duration),
        cmocka_unit_test(co_located_tasks_slow_as_measured),
        cmocka_unit_test(task_beyond_node_is_split),
        cmocka_unit_test(policies_finish_all_tasks_repeatably),
        cmocka_unit_test(simulation_conserves_work),
        cmocka_unit_test(policies_rank_as_expected),
        cmocka_unit_test(services_meet_slo_beside_tasks),
        cmocka_unit_test(tasks_end_despite_faults),
        cmocka_unit_test(silent_node_loses_work_after_lease),
        cmocka_unit_test(tasks_end_despite_outages),
        cmocka_unit_test(engine_explains_chosen_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
