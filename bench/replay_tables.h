/*
 * The measured tables of data/, and their training tasks as kernels for bench/replay.h.
 *
 * The tables do not list the kernels of a step. They have the time of a step alone, the fraction of
 * it that the device was busy, and the SMs and DRAM bandwidth in use on average. The model
 * therefore makes a step of `kernels` kernels of two kinds, spread evenly: wide ones, which use all
 * SMs, and narrow ones, which use narrow_permille of the SMs, in the proportion that gives the
 * average. Batch sizes change the durations only. Beside another process a launch takes the host
 * host_permille longer, which slows tasks that wait for their host even if the device has room.
 *
 * `kernels` is fitted for each model, the other two for all models together (replay_fit.c).
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
 * unless `measured_only`: then the models are those of the solo table, with 0 kernels. Returns 0,
 * -ERR_NOT_FOUND, -ERR_SYNTAX or -ERR_TOO_LARGE. */
int replay_tables_load(struct error *e, const char *folder, bool measured_only,
                       struct replay_tables *ret_tables);

/* Computes the fraction of its speed alone that each task of the pair keeps under MPS. */
void replay_pair_run(const struct replay_tables *tables, const struct replay_pair *pair,
                     double ret_kept[2]);
