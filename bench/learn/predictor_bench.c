/*
 * predictor_bench DATA OUT [FIRST_SEED]: the predictor on measured interference. Writes for every
 * split the data for an independent reproduction to the folder OUT (TABLE.rows: the features and
 * the logarithm of the interference, one row a line; TABLE.splits: kind, name, and the held-out
 * rows), and prints its own figures, one split a line:
 *
 *   table kind name mape median_mape network_mape train_ms train_both_ms predict_us sources
 *
 * Times are CPU times. train_both_ms includes the network as a candidate; its figures are those of
 * the chosen model.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/learn/interference.h"
#include "learn/order.h"
#include "learn/predictor.h"

enum { SPLITS = 20, REPEATS = 20, TRAIN_SEED = 1 };

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct split {
    const char *table, *kind;
    char name[INTERFERENCE_NAME_BYTES];
    bool held_out[INTERFERENCE_ROWS_MAX];
};

struct figures {
    double mape, median_mape, train_ms, predict_us;
    size_t sources[PREDICTOR_SOURCE_END];
};

static double median_interference(const struct interference_table *t, const struct split *split)
{
    double values[INTERFERENCE_ROWS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++)
        if (!split->held_out[i])
            values[count++] = t->rows[i].interference;
    return order_median(values, count);
}

static void predict_all(const struct interference_table *t, const struct split *split,
                        const struct predictor *p, const struct observations *o,
                        struct figures *ret)
{
    double median = median_interference(t, split), count = 0;
    double begin = cpu_us();
    for (size_t repeat = 0; repeat < REPEATS; repeat++)
        for (size_t i = 0; i < t->count; i++) {
            struct prediction prediction;
            const struct interference_row *row = &t->rows[i];
            if (!split->held_out[i])
                continue;
            predictor_predict(p, o, &row->own, &row->neighbour, 1, &prediction);
            if (repeat > 0)
                continue;
            count++;
            ret->mape += fabs(prediction.interference / row->interference - 1);
            ret->median_mape += fabs(median / row->interference - 1);
            ret->sources[prediction.source]++;
        }
    ret->predict_us = (cpu_us() - begin) / (REPEATS * count);
    ret->mape /= count;
    ret->median_mape /= count;
}

static int measure(const struct interference_table *t, const struct split *split,
                   enum predictor_learners learners, struct figures *ret)
{
    struct predictor *p = NULL;
    struct observations *o = observations_new(TRAIN_SEED);
    int rc = o == NULL ? -ERR_NO_MEMORY : 0;
    *ret = (struct figures){0};
    for (size_t i = 0; rc == 0 && i < t->count; i++)
        if (!split->held_out[i])
            rc = observations_add(o, &t->rows[i].own, &t->rows[i].neighbour, 1,
                                  t->rows[i].interference);
    double begin = cpu_us();
    if (rc == 0)
        rc = predictor_train(o, learners, TRAIN_SEED, &p);
    ret->train_ms = (cpu_us() - begin) / 1000;
    if (rc == 0)
        predict_all(t, split, p, o, ret);
    predictor_free(p);
    observations_free(o);
    return rc;
}

static int report(const struct interference_table *t, const struct split *split, FILE *splits)
{
    struct figures forest, both;
    int rc = measure(t, split, PREDICTOR_FOREST_ALONE, &forest);
    if (rc == 0)
        rc = measure(t, split, PREDICTOR_FOREST_OR_NETWORK, &both);
    if (rc < 0)
        return rc;
    printf("%s %s %s %.5f %.5f %.5f %.3f %.3f %.3f ", split->table, split->kind, split->name,
           forest.mape, forest.median_mape, both.mape, forest.train_ms, both.train_ms,
           forest.predict_us);
    for (int s = 0; s < PREDICTOR_SOURCE_END; s++)
        if (forest.sources[s] + both.sources[s] > 0)
            printf("%s:%zu/%zu,", predictor_source_name((enum predictor_source)s),
                   forest.sources[s], both.sources[s]);
    printf("\n");
    fprintf(splits, "%s %s", split->kind, split->name);
    for (size_t i = 0; i < t->count; i++)
        if (split->held_out[i])
            fprintf(splits, " %zu", i);
    fprintf(splits, "\n");
    return 0;
}

static FILE *create(const char *folder, const char *table, const char *ending)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, table, ending);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        perror(path);
    return file;
}

static int write_rows(const struct interference_table *t, const char *folder, const char *table)
{
    FILE *file = create(folder, table, "rows");
    if (file == NULL)
        return -ERR_IO;
    for (size_t i = 0; i < t->count; i++) {
        double features[FEATURES_ALL];
        features_combine(&t->rows[i].own, &t->rows[i].neighbour, 1, features);
        for (int k = 0; k < FEATURES_ALL; k++)
            fprintf(file, "%.17g ", features[k]);
        fprintf(file, "%.17g\n", log(t->rows[i].interference));
    }
    return fclose(file) == 0 ? 0 : -ERR_IO;
}

static int run_table(const struct interference_table *t, const char *folder, const char *table,
                     unsigned long first_seed, size_t seeds)
{
    FILE *splits = create(folder, table, "splits");
    int rc = splits == NULL ? -ERR_IO : write_rows(t, folder, table);
    for (size_t i = 0; rc == 0 && i < seeds; i++) {
        struct split split = {.table = table, .kind = "pairs"};
        snprintf(split.name, sizeof split.name, "%lu", first_seed + i);
        interference_split_pairs(t, first_seed + i, split.held_out);
        rc = report(t, &split, splits);
    }
    for (size_t i = 0; rc == 0 && i < t->model_count; i++) {
        struct split split = {.table = table, .kind = "model"};
        snprintf(split.name, sizeof split.name, "%s", t->models[i]);
        interference_split_model(t, i, split.held_out);
        rc = report(t, &split, splits);
    }
    if (splits != NULL && fclose(splits) != 0)
        rc = -ERR_IO;
    return rc;
}

int main(int argc, char **argv)
{
    static struct interference_table t;
    struct error e = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: predictor_bench DATA OUT [FIRST_SEED]\n");
        return 2;
    }
    unsigned long first_seed = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    int rc = interference_load_h200(&e, argv[1], &t);
    if (rc == 0)
        rc = run_table(&t, argv[2], "h200", first_seed, SPLITS);
    static const char *const gpus[] = {"V100", "K80"};
    for (size_t i = 0; rc == 0 && i < sizeof gpus / sizeof gpus[0]; i++) {
        rc = interference_load_gavel(&e, argv[1], gpus[i], &t);
        if (rc == 0)
            rc = run_table(&t, argv[2], gpus[i], first_seed, 0);
    }
    if (rc < 0)
        fprintf(stderr, "predictor_bench: %s\n", e.text[0] != '\0' ? e.text : error_title(rc));
    return rc < 0;
}
