/*
 * The measured tables of data/, and the training tasks in them as kernels for bench/replay.h.
 *
 * What a step of a task consists of is not in the tables: they give its time alone, how much of
 * that the device was busy, and the SMs and DRAM bandwidth in use on average. A step is therefore
 * made of `kernels` kernels of two kinds, spread evenly: wide ones, which take all SMs, and narrow
 * ones, which take narrow_permille of them, in the proportion that gives the average. Batch sizes
 * change the durations only. Beside another process a launch takes the host host_permille longer: a
 * task that waits for its host is slowed though the device has room.
 *
 * `kernels` is fitted for each model, the other two for all together (replay_fit.c).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "bench/replay.h"

enum {
    REPLAY_NAME_BYTES = 16,
    REPLAY_SOLO_MAX = 64,
    REPLAY_PAIRS_MAX = 128,
    REPLAY_MODELS_MAX = 16,
    REPLAY_KERNELS_MAX = 4096, /* of a step */
};

struct replay_solo {
    char model[REPLAY_NAME_BYTES];
    unsigned batch;
    double iter_ms, busy_percent, sm_percent, dram_percent;
};

struct replay_pair {
    char models[2][REPLAY_NAME_BYTES];
    unsigned batches[2];
    double kept[2];
};

struct replay_model {
    char name[REPLAY_NAME_BYTES];
    unsigned kernels, narrow_permille, host_permille;
};

struct replay_tables {
    struct replay_solo solo[REPLAY_SOLO_MAX];
    struct replay_pair pairs[REPLAY_PAIRS_MAX];
    struct replay_model models[REPLAY_MODELS_MAX];
    size_t solo_count, pair_count, model_count;
};

/* Reads h200_train_solo.csv and h200_train_pairs.csv of the folder, and h200_train_kernels.csv
 * unless `measured_only`: the models are then those of the solo table, with 0 kernels.
 * -ERR_NOT_FOUND, -ERR_SYNTAX, -ERR_TOO_LARGE. */
int replay_tables_load(struct error *e, const char *folder, bool measured_only,
                       struct replay_tables *ret_tables);

/* The part of its speed alone that each of the two keeps, as the model has it, under MPS. */
void replay_pair_run(const struct replay_tables *tables, const struct replay_pair *pair,
                     double ret_kept[2]);
