/*
 * A random forest for regression (Breiman 2001): trees on bootstrap samples; each split is the best
 * over a third of the features, redrawn for every split. The prediction is the mean over the trees,
 * and their standard deviation measures its uncertainty. The same samples and seed give the same
 * forest on every machine.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/stored.h"

enum {
    FOREST_TREES = 100,
    FOREST_LEAF_MIN = 2, /* minimum of distinct samples in a leaf */
    FOREST_SAMPLES_MAX = 65535,
    FOREST_FEATURES_MAX = 128,
    FOREST_DEPTH_MAX = 64,
};

struct forest;

/* rows: row-major, features × count, finite numbers; count is 1 to FOREST_SAMPLES_MAX. Returns
 * -ERR_NO_MEMORY. The forest keeps no pointer to its input. */
int forest_train(const double *rows, const double *targets, size_t count, size_t features,
                 uint64_t seed, struct forest **ret_forest);
void forest_free(struct forest *f);
/* Returns the mean over the trees; ret_spread: their standard deviation. */
double forest_predict(const struct forest *f, const double *row, double *ret_spread);

/* Save and load a forest as part of a model. Loading returns NULL and marks `r` as failed if out of
 * memory, or if the numbers are not a forest over this number of features. */
void forest_save(const struct forest *f, struct str *to);
struct forest *forest_load(struct stored_reader *r, size_t features);
