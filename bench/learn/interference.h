/*
 * Measured interference as input of the predictor: both directions of each measured pair, with the
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
    size_t own_model, neighbour_model; /* indices into `models` */
    double interference;
};

struct interference_table {
    size_t count, model_count;
    char models[INTERFERENCE_MODELS_MAX][INTERFERENCE_NAME_BYTES];
    struct interference_row rows[INTERFERENCE_ROWS_MAX];
};

/* Reads h200_train_pairs.csv of the folder, with the features of h200_train_solo.csv. Returns 0,
 * -ERR_NOT_FOUND, -ERR_SYNTAX or -ERR_TOO_LARGE. */
int interference_load_h200(struct error *e, const char *folder, struct interference_table *ret);
/* Reads the rows of one GPU from gavel_pairs.csv ("V100", "K80"). The table knows only the step
 * time and batch size of a task. */
int interference_load_gavel(struct error *e, const char *folder, const char *gpu,
                            struct interference_table *ret);

/* Selects the rows that a split holds out: a quarter of the pairs of models, with both directions
 * and all batch sizes, drawn by the seed; or all rows with a model. */
void interference_split_pairs(const struct interference_table *t, unsigned long seed,
                              bool ret_held_out[INTERFERENCE_ROWS_MAX]);
void interference_split_model(const struct interference_table *t, size_t model,
                              bool ret_held_out[INTERFERENCE_ROWS_MAX]);
