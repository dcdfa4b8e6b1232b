/*
 * A small neural network for regression, as in MuxFlow: two hidden layers of MLP_HIDDEN rectified
 * units, trained by Adam on squared error over standardised numbers. The same samples and seed give
 * the same network.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/stored.h"

enum { MLP_HIDDEN = 64, MLP_FEATURES_MAX = 128 };

struct mlp;

/* rows: row-major, features × count, finite numbers; count > 0. Returns -ERR_NO_MEMORY. The network
 * keeps no pointer to its input. */
int mlp_train(const double *rows, const double *targets, size_t count, size_t features,
              uint64_t seed, struct mlp **ret_mlp);
void mlp_free(struct mlp *m);
double mlp_predict(const struct mlp *m, const double *row);

/* Save and load a network as part of a model. Loading returns NULL and marks `r` as failed if out
 * of memory, or if the numbers are not a network over this number of features. */
void mlp_save(const struct mlp *m, struct str *to);
struct mlp *mlp_load(struct stored_reader *r, size_t features);
