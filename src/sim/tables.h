/*
 * What was measured: tasks alone at some batch sizes, and beside each other. data/README.md says
 * what the columns are. A model is what a task trains; it is known by its index.
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

/* One model alone at one batch size. Fractions of the device, over the time of an iteration. */
struct table_size {
    double batch;
    double iter_ms;
    double memory_bytes;
    double busy;      /* any kernel was there */
    double sm;        /* SMs with one */
    double occupancy; /* warps of all that the SMs can hold */
    double tensor;
    double dram; /* bandwidth */
};

struct table_model {
    char name[TABLES_NAME_MAX];
    double parameters;
    double noise_scale; /* of its gradients, in samples; 0: not known */
    size_t size_count;
    struct table_size sizes[TABLES_SIZES_MAX]; /* by batch, ascending, each once */
};

struct table_pair {
    size_t models[2];
    double batches[2];
    double kept[2]; /* the part of its speed alone */
};

struct tables {
    size_t model_count, pair_count, pair_capacity;
    struct table_model models[TABLES_MODELS_MAX];
    struct table_pair *pairs; /* owned */
};

/* Appends a table of tasks alone (h200_train_solo.csv). -ERR_SYNTAX, -ERR_TOO_LARGE. */
int tables_add_solo(struct error *e, const char *text, size_t length, struct tables *t);
/* Appends a table of pairs (h200_train_pairs.csv) of models that are known; rows of others are
 * counted in *ret_unknown (may be NULL: they are an error). -ERR_NO_MEMORY too. */
int tables_add_pairs(struct error *e, const char *text, size_t length, struct tables *t,
                     size_t *ret_unknown);
/* Takes noise scales (noise_scales.csv) of models that are known; others are ignored.
 * -ERR_SYNTAX. */
int tables_add_noise_scales(struct error *e, const char *text, size_t length, struct tables *t);
void tables_done(struct tables *t);
/* -1: there is none of that name. */
int tables_find(const struct tables *t, const char *name);
/* The model at any batch size: between measured ones the logarithms of time and the fractions are
 * linear over the logarithm of the batch, memory over the batch; beyond them time and memory go on,
 * the rest stays. */
struct table_size tables_at(const struct table_model *m, double batch);
