/* trace_test: reading, generating and stretching traces. */
#include "sim/trace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "sim/scenario.h"
#include "sim/shipped.h"

struct fixture {
    struct truth *truth;
    const struct tables *tables;
    struct trace_mix mix;
};

static void open_fixture(struct fixture *f)
{
    assert_int_equal(scenario_truth(NULL, 0, &f->truth), 0);
    f->tables = truth_tables(f->truth);
    trace_mix_default(f->tables, &f->mix);
    assert_int_equal(f->mix.count, 9);
}

static int read(const struct fixture *f, const char *text, struct trace *ret)
{
    return trace_parse(NULL, text, strlen(text), f->tables, &f->mix, 7, ret);
}

static void trace_parses_philly_lists(void **state)
{
    (void)state;
    struct fixture f;
    struct trace t;
    open_fixture(&f);
    assert_int_equal(read(&f,
                          "job_id,submit_s,duration_s,gpus,status,vc,in_pollux_subset\n"
                          "0,500,60,8,unknown,,0\n1,100,0,0,unknown,,0\n",
                          &t),
                     0);
    assert_int_equal(t.count, 2);
    assert_true(t.items[0].submit_s == 0 && t.items[1].submit_s == 400);
    assert_int_equal(t.items[1].devices, 8);
    assert_int_equal(t.items[0].devices, 1);
    assert_true(t.items[0].duration_s == 1);
    trace_done(&t);
    assert_int_equal(read(&f, "kind,gap_s,duration_s,model\nservice,0,0,yolos\ntask,3,5,gin\n", &t),
                     0);
    assert_int_equal(t.count, 1);
    trace_done(&t);
    assert_int_equal(read(&f, "duration_s\n3\n", &t), -ERR_SYNTAX);
    assert_int_equal(read(&f, "gap_s,duration_s\n", &t), -ERR_INVALID);
    assert_int_equal(read(&f, "gap_s,duration_s,model\n1,2,gpt\n", &t), -ERR_SYNTAX);
    assert_int_equal(read(&f, "gap_s,duration_s\n-1,2\n", &t), -ERR_SYNTAX);
    truth_free(f.truth);
}

static void shipped_traces_parse_completely(void **state)
{
    (void)state;
    struct fixture f;
    struct trace t;
    size_t length, multi = 0, by_model[TABLES_MODELS_MAX] = {0};
    open_fixture(&f);
    const char *text = shipped_find("philly.csv", &length);
    assert_int_equal(trace_parse(NULL, text, length, f.tables, &f.mix, 1, &t), 0);
    assert_int_equal(t.count, 98997);
    for (size_t i = 0; i < t.count; i++)
        multi += t.items[i].devices > 1;
    assert_true(fabs((double)multi / (double)t.count - 0.13) < 0.01);
    trace_done(&t);
    text = shipped_find("tasks_300.csv", &length);
    assert_int_equal(trace_parse(NULL, text, length, f.tables, &f.mix, 1, &t), 0);
    assert_int_equal(t.count, 300);
    for (size_t i = 0; i < t.count; i++)
        by_model[t.items[i].model]++;
    assert_int_equal(by_model[tables_find(f.tables, "vgg16")], 42);
    assert_int_equal(by_model[tables_find(f.tables, "bert")], 30);
    trace_done(&t);
    truth_free(f.truth);
}

static void generated_trace_matches_requested_distribution(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        double variation;
    } kinds[] = {{"poisson", 1}, {"bursty", 2.8}, {"diurnal", 1.1}};
    struct fixture f;
    struct trace t;
    open_fixture(&f);
    for (size_t k = 0; k < 3; k++) {
        double sum = 0, squares = 0;
        assert_int_equal(trace_generate(NULL, kinds[k].kind, 50000, 60, &f.mix, 5, &t), 0);
        for (size_t i = 1; i < t.count; i++) {
            double gap_s = t.items[i].submit_s - t.items[i - 1].submit_s;
            sum += gap_s;
            squares += gap_s * gap_s;
        }
        double mean = sum / (double)(t.count - 1);
        double variation = sqrt(squares / (double)(t.count - 1) - mean * mean) / mean;
        assert_true(fabs(mean / 60 - 1) < 0.2);
        assert_true(fabs(variation / kinds[k].variation - 1) < 0.15);
        trace_done(&t);
    }
    assert_int_equal(trace_generate(NULL, "weekly", 5, 60, &f.mix, 5, &t), -ERR_INVALID);
    truth_free(f.truth);
}

static void trace_resize_repeats_and_hasten_compresses(void **state)
{
    (void)state;
    struct fixture f;
    struct trace t;
    open_fixture(&f);
    assert_int_equal(read(&f, "submit_s,duration_s,model\n0,60,gin\n100,60,ncf\n", &t), 0);
    assert_true(fabs(trace_load(&t, 1) - 1.2) < 1e-12);
    assert_int_equal(trace_resize(&t, 5), 0);
    assert_true(t.items[2].submit_s == 200 && t.items[4].submit_s == 400);
    assert_int_equal(t.items[4].model, t.items[0].model);
    trace_hasten(&t, 2);
    assert_true(t.items[4].submit_s == 200);
    trace_done(&t);
    truth_free(f.truth);
}

static void trace_mix_parses_weights_and_batches(void **state)
{
    (void)state;
    struct fixture f;
    struct trace_mix mix;
    open_fixture(&f);
    assert_int_equal(trace_mix_parse(NULL, "vgg16=3,bert:16=0.5,gin", f.tables, &mix), 0);
    assert_int_equal(mix.count, 3);
    assert_true(mix.parts[0].batch == 512 && mix.parts[1].batch == 16 && mix.parts[2].weight == 1);
    assert_int_equal(trace_mix_parse(NULL, "gpt=1", f.tables, &mix), -ERR_INVALID);
    assert_int_equal(trace_mix_parse(NULL, "vgg16=-1", f.tables, &mix), -ERR_INVALID);
    assert_int_equal(trace_mix_parse(NULL, "vgg16:0", f.tables, &mix), -ERR_INVALID);
    assert_int_equal(trace_mix_parse(NULL, "", f.tables, &mix), -ERR_INVALID);
    truth_free(f.truth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_parses_philly_lists),
        cmocka_unit_test(shipped_traces_parse_completely),
        cmocka_unit_test(generated_trace_matches_requested_distribution),
        cmocka_unit_test(trace_resize_repeats_and_hasten_compresses),
        cmocka_unit_test(trace_mix_parses_weights_and_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
