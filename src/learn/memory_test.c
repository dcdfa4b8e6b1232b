/* The memory fit on the measured table and on known polynomials; saved models with damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "base/rng.h"
#include "learn/memory.h"

static const char *folder;

enum { TABLE_ROWS_MAX = 64, NAME_BYTES = 16 };
struct row {
    char model[NAME_BYTES];
    struct memory_sample sample;
};

static size_t read_table(struct row *rows)
{
    char path[512], line[512];
    snprintf(path, sizeof path, "%s/h200_train_solo.csv", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    size_t count = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned mib;
        assert_true(count < TABLE_ROWS_MAX);
        assert_int_equal(sscanf(line, "%15[^,],%u,%*[^,],%*[^,],%*[^,],%u", rows[count].model,
                                &rows[count].sample.batch, &mib),
                         3);
        rows[count++].sample.bytes = (uint64_t)mib << 20;
    }
    fclose(file);
    return count;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void memory_model_predicts_left_out_measurements(void **state)
{
    (void)state;
    struct row rows[TABLE_ROWS_MAX];
    double errors[TABLE_ROWS_MAX];
    size_t count = read_table(rows);
    assert_int_equal(count, 36);
    for (size_t out = 0; out < count; out++) {
        struct memory_model m = {0};
        for (size_t i = 0; i < count; i++)
            if (i != out && strcmp(rows[i].model, rows[out].model) == 0)
                assert_int_equal(memory_observe(&m, rows[i].sample.batch, rows[i].sample.bytes), 0);
        const struct memory_sample *real = &rows[out].sample;
        double predicted = (double)memory_predict(&m, real->batch);
        errors[out] = fabs(predicted / (double)real->bytes - 1);
        if (real->batch > m.samples[0].batch && real->batch < m.samples[m.count - 1].batch)
            assert_true(memory_booking(&m, real->batch) >= real->bytes);
    }
    qsort(errors, count, sizeof *errors, compare_doubles);
    assert_true((errors[count / 2 - 1] + errors[count / 2]) / 2 <= 0.06);
}

static uint64_t cubic(uint32_t batch)
{
    double x = batch / 1024.0;
    return (uint64_t)(1e9 + 2e9 * x + 5e8 * x * x + 3e9 * x * x * x);
}

static void memory_model_recovers_planted_polynomial(void **state)
{
    (void)state;
    struct memory_model line = {0}, curve = {0};
    for (uint32_t batch = 128; batch <= 512; batch += 128)
        assert_int_equal(memory_observe(&line, batch, 1000000000 + 7000000 * (uint64_t)batch), 0);
    assert_true(fabs((double)memory_predict(&line, 640) / 5.48e9 - 1) < 1e-9);
    for (uint32_t batch = 128; batch <= 1024; batch += 128)
        assert_int_equal(memory_observe(&curve, batch, cubic(batch)), 0);
    assert_true(fabs((double)memory_predict(&curve, 1280) / (double)cubic(1280) - 1) < 1e-6);
    assert_int_equal(memory_batch_max(&curve), 1280);
    /* The margin is at least 256 MiB and a tenth. */
    assert_true(memory_booking(&line, 128) - memory_predict(&line, 128) >= (uint64_t)256 << 20);
    assert_true(10 * memory_booking(&curve, 1024) >= 11 * memory_predict(&curve, 1024));
}

static void memory_model_few_samples_predict_conservatively(void **state)
{
    (void)state;
    struct memory_model m = {0};
    assert_int_equal(memory_predict(&m, 8), 0);
    assert_int_equal(memory_booking(&m, 8), 0);
    assert_int_equal(memory_batch_max(&m), 0);
    assert_int_equal(memory_observe(&m, 0, 1), -ERR_INVALID);
    assert_int_equal(memory_observe(&m, 1, 0), -ERR_INVALID);
    assert_int_equal(memory_observe(&m, 64, 1000), 0);
    assert_int_equal(memory_predict(&m, 32), 1000);
    assert_int_equal(memory_predict(&m, 128), 2000);
    assert_int_equal(memory_observe(&m, 64, 900), 0); /* the larger figure counts */
    assert_int_equal(memory_predict(&m, 64), 1000);
}

static void memory_model_prediction_never_falls(void **state)
{
    (void)state;
    struct rng r;
    rng_seed(&r, 7);
    for (int run = 0; run < 300; run++) {
        struct memory_model m = {0};
        size_t samples = 1 + rng_below(&r, 3 * MEMORY_SIZES_MAX);
        uint32_t smallest = UINT32_MAX, largest = 0;
        for (size_t i = 0; i < samples; i++) {
            uint32_t batch = 1 + (uint32_t)rng_below(&r, 100000);
            assert_int_equal(memory_observe(&m, batch, 1 + rng_below(&r, (uint64_t)1 << 40)), 0);
            smallest = batch < smallest ? batch : smallest;
            largest = batch > largest ? batch : largest;
        }
        assert_true(m.count <= MEMORY_SIZES_MAX);
        assert_int_equal(m.samples[0].batch, smallest);
        assert_int_equal(m.samples[m.count - 1].batch, largest);
        uint64_t last = 0;
        for (uint32_t batch = 1; batch < 2 * largest; batch += 1 + largest / 50) {
            assert_true(memory_predict(&m, batch) >= last);
            last = memory_predict(&m, batch);
            assert_true(memory_booking(&m, batch) > last);
        }
        for (size_t i = 0; i < m.count; i++) /* the margin covers the fitted samples */
            assert_true(memory_booking(&m, m.samples[i].batch) >= m.samples[i].bytes);
    }
}

static void memory_model_reloads_or_detects_damage(void **state)
{
    (void)state;
    struct memory_model m = {0}, loaded;
    struct str saved;
    str_init(&saved, MEMORY_STORED_MAX);
    for (uint32_t i = 1; i <= MEMORY_SIZES_MAX; i++)
        assert_int_equal(memory_observe(&m, i * 3, cubic(i * 100)), 0);
    memory_save(&m, &saved);
    assert_false(str_failed(&saved));
    assert_int_equal(memory_load(NULL, saved.data, saved.length, &loaded), 0);
    assert_int_equal(loaded.count, m.count);
    for (uint32_t batch = 1; batch < 200; batch++)
        assert_int_equal(memory_booking(&loaded, batch), memory_booking(&m, batch));

    /* A flipped bit or a truncation is rejected, and nothing is written. */
    struct memory_model untouched = {.count = 3};
    for (size_t bit = 0; bit < 8 * saved.length; bit++) {
        saved.data[bit / 8] = (char)(saved.data[bit / 8] ^ 1 << bit % 8);
        assert_int_equal(memory_load(NULL, saved.data, saved.length, &untouched), -ERR_CORRUPT);
        saved.data[bit / 8] = (char)(saved.data[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t length = 0; length < saved.length; length++)
        assert_int_equal(memory_load(NULL, saved.data, length, &untouched), -ERR_CORRUPT);
    assert_int_equal(untouched.count, 3);
    str_done(&saved);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_model_predicts_left_out_measurements),
        cmocka_unit_test(memory_model_recovers_planted_polynomial),
        cmocka_unit_test(memory_model_few_samples_predict_conservatively),
        cmocka_unit_test(memory_model_prediction_never_falls),
        cmocka_unit_test(memory_model_reloads_or_detects_damage),
    };
    if (argc != 2)
        return 2;
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
