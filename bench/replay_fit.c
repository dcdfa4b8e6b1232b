/*
 * replay_fit FOLDER: fits the kernels of a step of each model to the tables of FOLDER (data/) and
 * prints them as h200_train_kernels.csv. Prints errors on stderr, also for held-out pairs: the 45
 * pairs of models are divided into FOLDS parts, and each part is predicted by a fit to the others.
 *
 * Coordinate descent on the sum of absolute errors of `kept`: for each width of narrow kernels and
 * each slowdown of the host, the number of kernels of each model in turn, on a grid, until nothing
 * changes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "bench/replay_tables.h"

enum { FOLDS = 5, NO_FOLD = -1, ROUNDS_MAX = 3, KERNELS_AT_FIRST = 240, COLUMNS = 45 };

static const unsigned kernel_grid[] = {20,  30,  40,  60,  80,  120,  160,
                                       240, 320, 480, 640, 960, 1280, 1920};
static const unsigned narrow_grid[] = {100, 200, 300};
static const unsigned host_grid[] = {0, 50, 100};

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

/* The second half of the table has the same pairs of models in the same order. */
static int fold_of(size_t row)
{
    return (int)(row % COLUMNS * 7 % FOLDS);
}

static bool concerns(const struct replay_pair *pair, const char *model)
{
    return !model || str_equal(pair->models[0], model) || str_equal(pair->models[1], model);
}

/* Returns the sum of the errors of the rows with `model` (NULL: all) in the fold or, inverted,
 * outside of it. */
static double error_of(const struct replay_tables *tables, const char *model, int fold,
                       bool is_inside, unsigned *ret_values)
{
    double sum = 0;
    unsigned values = 0;
    for (size_t i = 0; i < tables->pair_count; i++) {
        const struct replay_pair *pair = &tables->pairs[i];
        double kept[2];
        if (!concerns(pair, model) || (fold != NO_FOLD && (fold_of(i) == fold) != is_inside))
            continue;
        replay_pair_run(tables, pair, kept);
        for (unsigned k = 0; k < 2; k++)
            sum += fabs(kept[k] - pair->kept[k]);
        values += 2;
    }
    if (ret_values)
        *ret_values = values;
    return sum;
}

/* Moves along the grid from the model's present value while the error shrinks. */
static bool improve_model(struct replay_tables *tables, struct replay_model *model, int fold)
{
    size_t at = 0;
    while (kernel_grid[at] < model->kernels)
        at++;
    double error = error_of(tables, model->name, fold, false, NULL);
    bool changed = false;
    for (int direction = -1; direction <= 1; direction += 2) {
        for (;;) {
            size_t next = at + (size_t)direction;
            if (next >= COUNT_OF(kernel_grid))
                break;
            model->kernels = kernel_grid[next];
            double next_error = error_of(tables, model->name, fold, false, NULL);
            if (next_error >= error)
                break;
            error = next_error;
            at = next;
            changed = true;
        }
        model->kernels = kernel_grid[at];
    }
    return changed;
}

/* Fits each model's kernels with the other parameters fixed. Returns the sum of errors. */
static double fit_kernels(struct replay_tables *tables, int fold)
{
    bool changed = true;
    for (unsigned round = 0; changed && round < ROUNDS_MAX; round++) {
        changed = false;
        for (size_t m = 0; m < tables->model_count; m++)
            changed |= improve_model(tables, &tables->models[m], fold);
    }
    return error_of(tables, NULL, fold, false, NULL);
}

static void fit(struct replay_tables *tables, int fold)
{
    struct replay_tables best = *tables;
    double best_error = INFINITY;
    for (size_t i = 0; i < COUNT_OF(narrow_grid) * COUNT_OF(host_grid); i++) {
        for (size_t m = 0; m < tables->model_count; m++) {
            struct replay_model *model = &tables->models[m];
            model->narrow_permille = narrow_grid[i / COUNT_OF(host_grid)];
            model->host_permille = host_grid[i % COUNT_OF(host_grid)];
            if (i == 0)
                model->kernels = KERNELS_AT_FIRST;
        }
        double error = fit_kernels(tables, fold);
        if (error < best_error) {
            best_error = error;
            best = *tables;
        }
    }
    *tables = best;
}

int main(int argc, char **argv)
{
    struct error error = {0};
    struct replay_tables tables;
    if (argc != 2) {
        fprintf(stderr, "usage: replay_fit FOLDER\n");
        return 2;
    }
    if (replay_tables_load(&error, argv[1], true, &tables) < 0) {
        fprintf(stderr, "replay_fit: %s\n", error.text);
        return 1;
    }
    double unseen = 0;
    unsigned values, unseen_values = 0;
    for (int fold = 0; fold < FOLDS; fold++) {
        fit(&tables, fold);
        unseen += error_of(&tables, NULL, fold, true, &values);
        unseen_values += values;
        fprintf(stderr, "fold %d of %d: mean error so far %.4f\n", fold + 1, FOLDS,
                unseen / unseen_values);
    }
    fit(&tables, NO_FOLD);
    double seen = error_of(&tables, NULL, NO_FOLD, true, &values);
    fprintf(stderr, "mean error of kept: %.4f fitted to all, %.4f for pairs left out\n",
            seen / values, unseen / unseen_values);
    printf("model,kernels,narrow_permille,host_permille\n");
    for (size_t m = 0; m < tables.model_count; m++)
        printf("%s,%u,%u,%u\n", tables.models[m].name, tables.models[m].kernels,
               tables.models[m].narrow_permille, tables.models[m].host_permille);
    return 0;
}
