/*
 * The model, compared with measurements on an H200 of modes of sharing and of pairs of training
 * tasks. The argument is the folder of the tables.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/str.h"
#include "bench/replay_modes.h"
#include "bench/replay_tables.h"

#define MODE_SECONDS    20
#define RATIO_ERROR_MAX 0.30
/* Least distance between modes that were measured apart, so that the order also holds with
 * processes. */
#define SPEED_MARGIN   0.005
#define P99_MARGIN     0.05
#define MEAN_ERROR_MAX 0.15
#define PAIR_ERROR_MAX 0.15

static void modes_match_measured_order_and_ratios(void **state)
{
    const char *folder = *state;
    char path[512];
    struct error error = {0};
    struct mode_kernels kernels;
    struct mode_result results[MODE_COUNT];
    snprintf(path, sizeof(path), "%s/h200_mode_kernels.csv", folder);
    if (mode_kernels_load(&error, path, &kernels) < 0)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < MODE_COUNT; i++)
        assert_int_equal(mode_run(&modes[i], &kernels, MODE_SECONDS, &results[i]), 0);
    for (size_t i = 0; i < MODE_COUNT; i++) {
        struct mode_ratios ratios = mode_compare(results, i);
        print_message("%-32s p50 %5.2f ms p99 %5.2f ms; to measured: p99 %.2f, kept %.2f\n",
                      modes[i].name, results[i].p50_ms, results[i].p99_ms, ratios.p99, ratios.kept);
        assert_true(fabs(ratios.p99 - 1) <= RATIO_ERROR_MAX);
        assert_true(fabs(ratios.kept - 1) <= RATIO_ERROR_MAX);
    }
    for (unsigned by_p99 = 0; by_p99 < 2; by_p99++) {
        size_t pair[2];
        if (!mode_is_ranked(results, by_p99, by_p99 ? P99_MARGIN : SPEED_MARGIN, pair))
            fail_msg("'%s' is not clearly above '%s' by %s", modes[pair[0]].name,
                     modes[pair[1]].name, by_p99 ? "p99" : "speed of the task");
    }
}

/* The two pairs that best show the effect of the order of arrival, and its limits. */
static bool is_named_pair(const struct replay_pair *pair)
{
    return (str_equal(pair->models[0], "vgg16") && str_equal(pair->models[1], "squeezenet")) ||
           (str_equal(pair->models[0], "squeezenet") && str_equal(pair->models[1], "bert"));
}

static void task_pairs_match_measured_speed(void **state)
{
    const char *folder = *state;
    struct error error = {0};
    struct replay_tables tables;
    double sum = 0;
    unsigned named = 0;
    if (replay_tables_load(&error, folder, false, &tables) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(tables.pair_count, 90);
    for (size_t i = 0; i < tables.pair_count; i++) {
        const struct replay_pair *pair = &tables.pairs[i];
        double kept[2];
        replay_pair_run(&tables, pair, kept);
        for (unsigned k = 0; k < 2; k++)
            sum += fabs(kept[k] - pair->kept[k]);
        if (!is_named_pair(pair))
            continue;
        print_message("%s %u beside %s %u: %.2f and %.2f, measured %.2f and %.2f\n",
                      pair->models[0], pair->batches[0], pair->models[1], pair->batches[1], kept[0],
                      kept[1], pair->kept[0], pair->kept[1]);
        for (unsigned k = 0; k < 2; k++)
            assert_true(fabs(kept[k] - pair->kept[k]) <= PAIR_ERROR_MAX);
        named++;
    }
    assert_int_equal(named, 4);
    double mean = sum / (double)(2 * tables.pair_count);
    print_message("mean error over all pairs: %.3f\n", mean);
    assert_true(mean <= MEAN_ERROR_MAX);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(modes_match_measured_order_and_ratios, argv[1]),
        cmocka_unit_test_prestate(task_pairs_match_measured_speed, argv[1]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
