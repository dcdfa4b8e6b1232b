/* report_test: pages of synthetic campaigns. */
#include "report/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "report/markup_fixture.h"

enum { TASKS = 40, POINTS = 50 };

struct fixture {
    struct hardware hardware;
    struct campaign_config config;
    size_t run_count;
    struct campaign_run *runs;
    struct report report;
};

static const char *const models[] = {"vgg16", "bert", "<b>model</b>", "gpt2"};

static void fill_result(struct result *r, size_t task_count, size_t service_count, double slower)
{
    size_t count = task_count + service_count;
    r->models = models;
    r->model_count = sizeof models / sizeof *models;
    r->workload_count = count;
    r->workloads = calloc(count + 1, sizeof *r->workloads);
    assert_non_null(r->workloads);
    for (size_t i = 0; i < count; i++) {
        bool is_service = i < service_count;
        double submit_s = 60 * (double)i, length_s = slower * (120 + 30 * (double)(i % 7));
        r->workloads[i] = (struct result_workload){
            .id = i + 1,
            .kind = is_service ? WORKLOAD_SERVICE : WORKLOAD_TASK,
            .state = is_service ? WORKLOAD_RUNNING : WORKLOAD_SUCCEEDED,
            .model = is_service ? 3 : (uint32_t)(i % 3),
            .devices = 1,
            .submit_s = submit_s,
            .start_s = submit_s + 5,
            .end_s = is_service ? -1 : submit_s + length_s,
            .wait_s = 5,
            .pd = slower,
            .requests = is_service ? 1e6 : 0,
            .late_requests = is_service ? 5e3 * slower : 0,
        };
        assert_int_equal(
            result_add_span(r, &(struct result_span){.device = (uint32_t)(i % r->device_count),
                                                     .workload = (uint32_t)i,
                                                     .from_s = submit_s + 5,
                                                     .to_s = submit_s + length_s}),
            0);
    }
    r->point_count = POINTS;
    for (size_t i = 0; i < POINTS; i++)
        r->points[i] = (struct result_point){.from_s = 60 * (double)i,
                                             .sm = 0.5,
                                             .memory = 0.25,
                                             .running = 3,
                                             .waiting = 1,
                                             .requests = service_count > 0 ? 1e4 : 0,
                                             .late_requests = service_count > 0 ? 50 : 0};
    assert_int_equal(result_finish(r), 0);
}

/* Makes runs of the policies in `names`, each slower than the previous one. */
static void open_fixture(struct fixture *f, const char *nodes, const char *const *names,
                         size_t rates, size_t seeds)
{
    *f = (struct fixture){0};
    assert_int_equal(hardware_parse(NULL, nodes, &f->hardware), 0);
    engine_config_default(&f->config.engine);
    f->config.engine.hardware = &f->hardware;
    for (; names[f->config.variant_count]; f->config.variant_count++)
        assert_int_equal(campaign_variant_parse(NULL, names[f->config.variant_count],
                                                &f->config.variants[f->config.variant_count]),
                         0);
    f->config.seed = 7;
    f->config.seed_count = seeds;
    f->config.rate_count = rates;
    for (size_t i = 0; i < rates; i++)
        f->config.rates[i] = (double)(i + 1);
    f->run_count = rates * seeds * f->config.variant_count;
    f->runs = calloc(f->run_count, sizeof *f->runs);
    assert_non_null(f->runs);
    for (size_t i = 0; i < f->run_count; i++) {
        struct campaign_run *run = &f->runs[i];
        run->variant = &f->config.variants[i % f->config.variant_count];
        run->rate = f->config.rates[i / f->config.variant_count / seeds];
        run->result.load = run->rate / 2;
        run->result.device_count = f->hardware.device_count;
        run->result.node_count = f->hardware.node_count;
    }
    f->report = (struct report){.command = "gpumux sim --policy x",
                                .trace = "tasks-300",
                                .nodes = nodes,
                                .version = "1.2.3",
                                .config = &f->config,
                                .runs = f->runs};
}

static void fill_fixture(struct fixture *f, size_t tasks, size_t services)
{
    f->config.engine.service_count = services;
    for (size_t i = 0; i < f->run_count; i++)
        fill_result(&f->runs[i].result, tasks, services,
                    1 + 0.5 * (double)(i % f->config.variant_count));
}

static void close_fixture(struct fixture *f)
{
    for (size_t i = 0; i < f->run_count; i++)
        result_done(&f->runs[i].result);
    free(f->runs);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

/* Writes a page and checks properties that every page must have. */
static void write_page(const struct fixture *f, struct str *out)
{
    char why[256];
    struct error e = {0};
    str_init(out, REPORT_BYTES_MAX);
    assert_int_equal(report_write(&e, &f->report, out), 0);
    const char *text = str_text(out);
    if (!markup_is_well_formed(text, why, sizeof why))
        fail_msg("%s", why);
    static const char *const sections[] = {"summary", "distributions", "utilisation", "devices",
                                           "slo",     "sensitivity",   "ablation",    "simulated"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char heading[64];
        (void)snprintf(heading, sizeof heading, "<h2 id=\"%s\">", sections[i]);
        assert_int_equal(count_of(text, heading), 1);
    }
    assert_int_equal(count_of(text, "<svg "), count_of(text, "-desc\">"));
    assert_int_equal(count_of(text, "<svg "), count_of(text, "<figcaption>"));
    assert_int_equal(count_of(text, "<th"), count_of(text, "scope=\"") + count_of(text, "<thead"));
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_null(strstr(text, "http://www.w3.org/1999"));
    assert_int_equal(count_of(text, "http"), count_of(text, "http://www.w3.org/2000/svg"));
}

static void report_has_every_figure(void **state)
{
    (void)state;
    struct fixture f;
    struct str out, again;
    open_fixture(&f, "2x2xH200", (const char *const[]){"gpumux", "gpumux-tuner", "exclusive", NULL},
                 3, 2);
    fill_fixture(&f, TASKS, 2);
    write_page(&f, &out);
    static const char *const figures[] = {"figure-distributions-1",
                                          "figure-distributions-2",
                                          "figure-distributions-3",
                                          "figure-utilisation",
                                          "figure-devices-1",
                                          "figure-devices-2",
                                          "figure-slo",
                                          "figure-sensitivity",
                                          "figure-ablation"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        char begins[64];
        (void)snprintf(begins, sizeof begins, "<svg id=\"%s\" ", figures[i]);
        assert_int_equal(count_of(str_text(&out), begins), 1);
    }
    assert_int_equal(count_of(str_text(&out), "<svg "), 9);
    assert_null(strstr(str_text(&out), "class=\"missing\""));
    assert_non_null(strstr(str_text(&out), "seed 7, the first of 2"));
    /* The second policy takes 50 % longer. */
    assert_non_null(strstr(str_text(&out), "(+50 %)"));
    /* An ablation does not count as a policy. */
    assert_non_null(strstr(str_text(&out), "<h1>2 policies, 40 tasks, 4 devices</h1>"));
    write_page(&f, &again);
    assert_string_equal(str_text(&out), str_text(&again));
    str_done(&again);
    str_done(&out);
    close_fixture(&f);
}

static void report_names_option_for_missing_figure(void **state)
{
    (void)state;
    struct fixture f;
    struct str out;
    open_fixture(&f, "1x2xH200", (const char *const[]){"gpumux", NULL}, 1, 1);
    fill_fixture(&f, TASKS, 0);
    write_page(&f, &out);
    assert_non_null(strstr(str_text(&out), "<h1>gpumux, 40 tasks, 2 devices</h1>"));
    assert_int_equal(count_of(str_text(&out), "class=\"missing\""), 3);
    assert_non_null(strstr(str_text(&out), "<code>--services N</code>"));
    assert_non_null(strstr(str_text(&out), "<code>--load 0.5,1,2,4</code>"));
    assert_non_null(strstr(str_text(&out), "<code>--ablate tuner,predictor</code>"));
    str_done(&out);
    close_fixture(&f);
}

static void report_of_empty_results_is_written(void **state)
{
    (void)state;
    struct fixture f;
    struct str out;
    open_fixture(&f, "1x1xH200", (const char *const[]){"firstfit", "firstfit-tuner", NULL}, 2, 1);
    write_page(&f, &out);
    assert_non_null(strstr(str_text(&out), "Nothing ran on a device."));
    str_done(&out);
    close_fixture(&f);
}

static void report_escapes_foreign_text(void **state)
{
    (void)state;
    struct fixture f;
    struct str out;
    open_fixture(&f, "1x2xH200", (const char *const[]){"gpumux", NULL}, 1, 1);
    fill_fixture(&f, TASKS, 0);
    f.report.command = "gpumux sim --trace '</pre><script>alert(1)</script>'";
    f.report.trace = "a\"b&c<d>\xff\x02.csv";
    f.report.nodes = "<svg>";
    f.report.version = "&";
    write_page(&f, &out);
    assert_non_null(strstr(str_text(&out), "a&quot;b&amp;c&lt;d&gt;"));
    assert_non_null(strstr(str_text(&out), "&lt;/pre&gt;&lt;script&gt;"));
    assert_non_null(strstr(str_text(&out), "&lt;b&gt;model&lt;/b&gt;"));
    assert_null(strstr(str_text(&out), "<b>model"));
    str_done(&out);
    close_fixture(&f);
}

static void spoil(double *values, size_t count, size_t *next)
{
    static const double wild[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 0, -1, 1e-300};
    for (size_t i = 0; i < count; i++)
        values[i] = wild[(*next)++ % (sizeof wild / sizeof *wild)];
}

static void report_survives_any_value(void **state)
{
    (void)state;
    struct fixture f;
    struct str out;
    open_fixture(&f, "2x2xH200", (const char *const[]){"gpumux", "gpumux-tuner", "exclusive", NULL},
                 2, 3);
    fill_fixture(&f, TASKS, 2);
    size_t next = 0;
    for (size_t i = 0; i < f.run_count; i++, next++) {
        struct result *r = &f.runs[i].result;
        struct result_summary *s = &r->summary;
        double *const summary[] = {
            &s->completion.mean_s, &s->completion.p50_s, &s->completion.p95_s, &s->completion.p99_s,
            &s->waiting.mean_s,    &s->makespan_s,       &s->pd_mean,          &s->sm_mean,
            &s->memory_mean,       &s->requests,         &s->late_requests,    &r->load};
        for (size_t n = 0; n < sizeof summary / sizeof *summary; n++)
            spoil(summary[n], 1, &next);
        for (size_t n = 0; n < r->workload_count; n++)
            spoil(&r->workloads[n].end_s, 1, &next), spoil(&r->workloads[n].wait_s, 1, &next);
        for (size_t n = 0; n < r->span_count; n++)
            spoil(&r->spans[n].from_s, 1, &next), spoil(&r->spans[n].to_s, 1, &next);
        for (size_t n = 0; n < r->point_count; n++) {
            struct result_point *p = &r->points[n];
            double *const point[] = {&p->sm,      &p->memory,   &p->running,
                                     &p->waiting, &p->requests, &p->late_requests};
            for (size_t v = 0; v < sizeof point / sizeof *point; v++)
                spoil(point[v], 1, &next);
        }
    }
    write_page(&f, &out);
    str_done(&out);
    close_fixture(&f);
}

/* Two of four tasks end: the line reaches half of the plot, which spans 284 to 46. */
static void unfinished_tasks_count_in_distribution(void **state)
{
    (void)state;
    struct fixture f;
    struct str out;
    open_fixture(&f, "1x2xH200", (const char *const[]){"firstfit", NULL}, 1, 1);
    fill_fixture(&f, 4, 0);
    f.runs[0].result.workloads[1].state = WORKLOAD_QUEUED;
    f.runs[0].result.workloads[3].state = WORKLOAD_FAILED;
    write_page(&f, &out);
    const char *figure = strstr(str_text(&out), "id=\"figure-distributions-1\"");
    const char *line = figure ? strstr(figure, "<path d=\"M") : NULL;
    assert_non_null(line);
    size_t length = strcspn(line + 9, "\"");
    char path[256] = {0};
    assert_true(length > 4 && length < sizeof path);
    memcpy(path, line + 9, length);
    assert_non_null(strstr(path, " 284L"));
    assert_string_equal(path + length - 4, " 165");
    str_done(&out);
    close_fixture(&f);
}

static void report_names_omitted_content(void **state)
{
    (void)state;
    struct fixture f;
    struct str out;
    static const char *const all[] = {"exclusive", "firstfit", "random",    "antman",   "mps",
                                      "kernelest", "gslice",   "oracle",    "gpumux",   "iadeep",
                                      "mudi",      "muxflow",  "exclusive", "firstfit", "random",
                                      "antman",    NULL};
    open_fixture(&f, "10x4xH200", all, 5, 1);
    fill_fixture(&f, TASKS, 0);
    struct result *r = &f.runs[4 * 16].result; /* highest rate, first policy */
    for (size_t i = 0; i < REPORT_SPANS_MAX + 100; i++)
        assert_int_equal(
            result_add_span(r, &(struct result_span){.device = 0,
                                                     .workload = (uint32_t)(i % TASKS),
                                                     .from_s = (double)i,
                                                     .to_s = (double)i + (i < 50 ? 0.01 : 30)}),
            0);
    r->summary = (struct result_summary){0};
    assert_int_equal(result_finish(r), 0);
    write_page(&f, &out);
    const char *text = str_text(&out);
    assert_non_null(strstr(text, "Of 5 rates, the 4 highest are drawn."));
    assert_non_null(strstr(text, "Of 16 policies, the first 4 are drawn"));
    assert_non_null(strstr(text, "Shown are the first 14 policies; 2 more are in the table only."));
    assert_non_null(strstr(text, "Shown are the first 24 of 40 devices."));
    assert_non_null(strstr(text, "too short to be seen: 50."));
    assert_non_null(strstr(text, "Left out after the first 2000 bars: "));
    str_done(&out);
    str_init(&out, 10000);
    assert_int_equal(report_write(NULL, &f.report, &out), -ERR_NO_MEMORY);
    str_done(&out);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_has_every_figure),
        cmocka_unit_test(report_names_option_for_missing_figure),
        cmocka_unit_test(report_of_empty_results_is_written),
        cmocka_unit_test(report_escapes_foreign_text),
        cmocka_unit_test(report_survives_any_value),
        cmocka_unit_test(unfinished_tasks_count_in_distribution),
        cmocka_unit_test(report_names_omitted_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
