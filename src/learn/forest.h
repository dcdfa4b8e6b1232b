/*
 * A random forest for regression (Breiman 2001): trees on bootstrap samples, each split the best of
 * a third of the features, drawn anew. Its answer is the mean over the trees, and how far they are
 * apart says how sure it is. The same samples and seed give the same forest everywhere.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/stored.h"

enum {
    FOREST_TREES = 100,
    FOREST_LEAF_MIN = 2, /* different samples that a leaf has at least */
    FOREST_SAMPLES_MAX = 65535,
    FOREST_FEATURES_MAX = 128,
    FOREST_DEPTH_MAX = 64,
};

struct forest;

/* rows is row-major, features × count; finite numbers. count from 1 to FOREST_SAMPLES_MAX.
 * -ERR_NO_MEMORY. Nothing of the input is kept. */
int forest_train(const double *rows, const double *targets, size_t count, size_t features,
                 uint64_t seed, struct forest **ret_forest);
void forest_free(struct forest *f);
/* Mean over the trees; ret_spread: their standard deviation. */
double forest_predict(const struct forest *f, const double *row, double *ret_spread);

/* As a part of a saved model. NULL when memory is out or the numbers are no forest over so many
 * features: `r` is then marked failed. */
void forest_save(const struct forest *f, struct str *to);
struct forest *forest_load(struct stored_reader *r, size_t features);
