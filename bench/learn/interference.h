/*
 * Measured interference, as the predictor takes it: of each measured pair both directions, with the
 * profiles of the two tasks alone.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "learn/features.h"

enum { INTERFERENCE_ROWS_MAX = 2048, INTERFERENCE_MODELS_MAX = 32, INTERFERENCE_NAME_BYTES = 32 };

struct interference_row {
    struct task_profile own, neighbour;
    size_t own_model, neighbour_model; /* in `models` */
    double interference;
};

struct interference_table {
    size_t count, model_count;
    char models[INTERFERENCE_MODELS_MAX][INTERFERENCE_NAME_BYTES];
    struct interference_row rows[INTERFERENCE_ROWS_MAX];
};

/* h200_train_pairs.csv of the folder, with the features of h200_train_solo.csv. -ERR_NOT_FOUND,
 * -ERR_SYNTAX, -ERR_TOO_LARGE. */
int interference_load_h200(struct error *e, const char *folder, struct interference_table *ret);
/* The rows of one GPU in gavel_pairs.csv ("V100", "K80"). All that is known of a task there are its
 * step time and batch size. */
int interference_load_gavel(struct error *e, const char *folder, const char *gpu,
                            struct interference_table *ret);

/* Which rows a split holds out: a quarter of the pairs of models, with both directions and all
 * batch sizes, drawn by the seed; or all rows with a model. */
void interference_split_pairs(const struct interference_table *t, unsigned long seed,
                              bool ret_held_out[INTERFERENCE_ROWS_MAX]);
void interference_split_model(const struct interference_table *t, size_t model,
                              bool ret_held_out[INTERFERENCE_ROWS_MAX]);
