/* truth_test: the shipped tables as the truth. */
#include "sim/truth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "sim/shipped.h"

static struct truth *make_truth(double noise, uint64_t seed)
{
    struct tables tables = {0};
    struct truth *t = NULL;
    size_t length;
    const char *text = shipped_find("h200_train_solo.csv", &length);
    assert_int_equal(tables_add_solo(NULL, text, length, &tables), 0);
    text = shipped_find("h200_train_pairs.csv", &length);
    assert_int_equal(tables_add_pairs(NULL, text, length, &tables, NULL), 0);
    assert_int_equal(tables.model_count, 9);
    assert_int_equal(tables.pair_count, 90);
    assert_int_equal(truth_new(NULL, &tables, noise, seed, &t), 0);
    return t;
}

static struct truth_resident resident(const struct truth *t, const char *name, double batch)
{
    int model = tables_find(truth_tables(t), name);
    assert_true(model >= 0);
    return (struct truth_resident){.id = 1, .model = (size_t)model, .batch = batch, .speed = 1};
}

static void truth_reproduces_measured_values(void **state)
{
    (void)state;
    struct truth *t = make_truth(0, 0);
    const struct hardware_gpu *gpu = hardware_gpu_at(0);
    struct truth_resident pair[2] = {resident(t, "vgg16", 512), resident(t, "squeezenet", 512)};
    double slowdowns[3];
    struct table_size alone = truth_alone(t, gpu, pair[0].model, 512);
    assert_true(fabs(alone.iter_ms - 70.989) < 1e-9);
    truth_slowdowns(t, gpu, pair, 2, slowdowns);
    assert_true(fabs(1 / slowdowns[0] - 0.953) < 1e-4);
    assert_true(fabs(1 / slowdowns[1] - 0.192) < 1e-4);
    truth_slowdowns(t, gpu, pair, 1, slowdowns);
    assert_true(slowdowns[0] == 1);
    truth_free(t);
}

static void third_neighbour_adds_slowdown(void **state)
{
    (void)state;
    struct truth *t = make_truth(0, 0);
    const struct hardware_gpu *gpu = hardware_gpu_at(0);
    struct truth_resident three[3] = {resident(t, "bert", 8), resident(t, "yolo", 32),
                                      resident(t, "resnet18", 100)};
    double two[3], all[3];
    truth_slowdowns(t, gpu, three, 2, two);
    truth_slowdowns(t, gpu, three, 3, all);
    assert_true(all[1] > two[1]);
    three[2].speed = 0; /* a task that stands still slows no other */
    truth_slowdowns(t, gpu, three, 3, all);
    assert_true(fabs(all[1] - two[1]) < 1e-12);
    truth_free(t);
}

static void slowdown_is_continuous_in_batch(void **state)
{
    (void)state;
    struct truth *t = make_truth(0, 0);
    const struct hardware_gpu *gpu = hardware_gpu_at(0);
    double before = 0;
    for (double batch = 64; batch < 2048; batch *= 1.02) {
        struct truth_resident pair[2] = {resident(t, "vgg16", batch), resident(t, "lstm", 256)};
        double slowdowns[2];
        truth_slowdowns(t, gpu, pair, 2, slowdowns);
        assert_true(before == 0 || fabs(slowdowns[1] / before - 1) < 0.06);
        before = slowdowns[1];
    }
    truth_free(t);
}

static void noise_repeats_by_seed(void **state)
{
    (void)state;
    struct truth *a = make_truth(0.05, 1), *b = make_truth(0.05, 1), *c = make_truth(0.05, 2);
    const struct hardware_gpu *gpu = hardware_gpu_at(0);
    struct truth_resident pair[2] = {resident(a, "yolo", 32), resident(a, "bert", 8)};
    double of_a[2], of_b[2], of_c[2];
    truth_slowdowns(a, gpu, pair, 2, of_a);
    truth_slowdowns(b, gpu, pair, 2, of_b);
    truth_slowdowns(c, gpu, pair, 2, of_c);
    assert_memory_equal(of_a, of_b, sizeof of_a);
    assert_true(of_a[0] != of_c[0]);
    truth_free(a);
    truth_free(b);
    truth_free(c);
}

static void smaller_devices_are_slower(void **state)
{
    (void)state;
    struct truth *t = make_truth(0, 0);
    struct truth_resident task = resident(t, "vgg16", 512);
    double measured_ms = truth_alone(t, hardware_gpu_at(0), task.model, 512).iter_ms;
    for (size_t i = 1; hardware_gpu_at(i); i++) {
        const struct hardware_gpu *gpu = hardware_gpu_at(i);
        struct table_size size = truth_alone(t, gpu, task.model, 512);
        assert_false(gpu->is_measured);
        if (gpu->sm_count < 132)
            assert_true(size.iter_ms > measured_ms * 1.1);
        assert_true(size.sm <= size.busy && size.busy <= 1 && size.dram <= 1);
    }
    truth_free(t);
}

/* The bar of `gpumux sim --validate`, on pairs that the fit did not use. */
static void held_out_pairs_are_predicted(void **state)
{
    (void)state;
    struct truth *t = make_truth(0, 0);
    struct truth_validation v;
    struct error e = {0};
    size_t length;
    const char *text = shipped_find("h200_train_pairs.csv", &length);
    assert_int_equal(truth_validate(&e, t, text, length, &v), 0);
    assert_int_equal(v.values, 180);
    assert_int_equal(v.unknown_rows, 0);
    assert_true(v.error_mean <= 0.08);
    assert_true(v.fitted_error_mean < v.error_mean);
    static const char unknown[] = "model_a,batch_a,model_b,batch_b,kept_a,kept_b\n"
                                  "gpt,1,vgg16,512,0.5,0.5\n";
    assert_int_equal(truth_validate(&e, t, unknown, strlen(unknown), &v), -ERR_INVALID);
    truth_free(t);
}

static void tables_without_pairs_are_refused(void **state)
{
    (void)state;
    struct tables tables = {0};
    struct truth *t;
    size_t length;
    struct error e = {0};
    const char *text = shipped_find("h200_train_solo.csv", &length);
    assert_int_equal(tables_add_solo(&e, text, length, &tables), 0);
    assert_int_equal(tables_add_solo(&e, text, length, &tables), -ERR_SYNTAX); /* appended twice */
    assert_int_equal(truth_new(&e, &tables, 0, 0, &t), -ERR_INVALID);
}

static void hardware_parses_node_notation(void **state)
{
    (void)state;
    struct hardware f;
    struct error e;
    assert_int_equal(hardware_parse(&e, "5x4xH200:24g", &f), 0);
    assert_int_equal(f.device_count, 20);
    assert_int_equal(f.node_count, 5);
    assert_true(f.groups[0].memory_bytes == UINT64_C(24) << 30);
    assert_int_equal(hardware_parse(&e, "2500x8xH200,2xT4,a100", &f), 0);
    assert_int_equal(f.device_count, 20003);
    assert_int_equal(f.groups[1].devices_per_node, 2);
    assert_int_equal(hardware_parse(&e, "", &f), -ERR_INVALID);
    assert_int_equal(hardware_parse(&e, "4xH300", &f), -ERR_INVALID);
    assert_int_equal(hardware_parse(&e, "4xT4:17g", &f), -ERR_INVALID);
    assert_int_equal(hardware_parse(&e, "0x4xT4", &f), -ERR_INVALID);
    assert_int_equal(hardware_parse(&e, "1x65xT4", &f), -ERR_INVALID);
    assert_int_equal(hardware_parse(&e, "4xT4,", &f), -ERR_INVALID);
    assert_int_equal(hardware_parse(&e, "99999x64xT4", &f), -ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_reproduces_measured_values),
        cmocka_unit_test(third_neighbour_adds_slowdown),
        cmocka_unit_test(slowdown_is_continuous_in_batch),
        cmocka_unit_test(noise_repeats_by_seed),
        cmocka_unit_test(smaller_devices_are_slower),
        cmocka_unit_test(held_out_pairs_are_predicted),
        cmocka_unit_test(tables_without_pairs_are_refused),
        cmocka_unit_test(hardware_parses_node_notation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
