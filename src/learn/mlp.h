/*
 * A small network for regression, as MuxFlow predicts with: two hidden layers of MLP_HIDDEN
 * rectified units, trained by Adam on squared error over standardised numbers. The same samples and
 * seed give the same network.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/stored.h"

enum { MLP_HIDDEN = 64, MLP_FEATURES_MAX = 128 };

struct mlp;

/* rows is row-major, features × count; finite numbers, count > 0. -ERR_NO_MEMORY. Nothing of the
 * input is kept. */
int mlp_train(const double *rows, const double *targets, size_t count, size_t features,
              uint64_t seed, struct mlp **ret_mlp);
void mlp_free(struct mlp *m);
double mlp_predict(const struct mlp *m, const double *row);

/* As a part of a saved model. NULL when memory is out or the numbers are no network over so many
 * features: `r` is then marked failed. */
void mlp_save(const struct mlp *m, struct str *to);
struct mlp *mlp_load(struct stored_reader *r, size_t features);
