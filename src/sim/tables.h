/*
 * Measurements of tasks, alone at several batch sizes and in pairs on one device. data/README.md
 * describes the columns. A model is the neural network that a task trains, identified by its index.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    TABLES_MODELS_MAX = 24,
    TABLES_SIZES_MAX = 16, /* batch sizes of one model */
    TABLES_PAIRS_MAX = 4096,
    TABLES_NAME_MAX = 16, /* bytes with NUL */
};

/* One model alone at one batch size. Each fraction is a part of the device, averaged over an
 * iteration. */
struct table_size {
    double batch;
    double iter_ms;
    double memory_bytes;
    double busy;      /* time with any kernel running */
    double sm;        /* SMs with a kernel */
    double occupancy; /* resident warps, relative to capacity */
    double tensor;
    double dram; /* bandwidth */
};

struct table_model {
    char name[TABLES_NAME_MAX];
    double parameters;
    double noise_scale; /* of the gradients, in samples; 0: unknown */
    size_t size_count;
    struct table_size sizes[TABLES_SIZES_MAX]; /* by batch, ascending, unique */
};

struct table_pair {
    size_t models[2];
    double batches[2];
    double kept[2]; /* fraction of the speed alone */
};

struct tables {
    size_t model_count, pair_count, pair_capacity;
    struct table_model models[TABLES_MODELS_MAX];
    struct table_pair *pairs; /* owned */
};

/* Appends a table of tasks alone (h200_train_solo.csv). Returns -ERR_SYNTAX or -ERR_TOO_LARGE. */
int tables_add_solo(struct error *e, const char *text, size_t length, struct tables *t);
/* Appends a table of pairs (h200_train_pairs.csv). Rows with unknown models are counted in
 * *ret_unknown; if ret_unknown is NULL, such rows are an error. Returns the errors of
 * tables_add_solo() or -ERR_NO_MEMORY. */
int tables_add_pairs(struct error *e, const char *text, size_t length, struct tables *t,
                     size_t *ret_unknown);
/* Reads the noise scales (noise_scales.csv) of known models and ignores other rows. Returns
 * -ERR_SYNTAX. */
int tables_add_noise_scales(struct error *e, const char *text, size_t length, struct tables *t);
void tables_done(struct tables *t);
/* Returns the index of the model of that name, or -1. */
int tables_find(const struct tables *t, const char *name);
/* Returns a model at any batch size. Between measured sizes, the logarithms of time and the
 * fractions are linear in the logarithm of the batch, and memory is linear in the batch. Outside
 * the measured sizes, time and memory are extrapolated and the other fields are constant. */
struct table_size tables_at(const struct table_model *m, double batch);
