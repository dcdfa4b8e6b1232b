/*
 * A service and a training task on one H200 under each way to share it: the measurements, and the
 * same on the model.
 *
 * The service answers requests at random times (Poisson, 150 a second); each request is one pass
 * over a list of short kernels that takes about 1.14 ms. The task repeats its own list without
 * pause. The lists are in data/h200_mode_kernels.csv (see replay_modes_fit.c for their origin).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "bench/replay.h"

enum { MODE_KERNELS_MAX = 512 };

struct mode_kernels {
    struct replay_kernel service[MODE_KERNELS_MAX], task[MODE_KERNELS_MAX];
    size_t service_count, task_count;
};

struct mode {
    const char *name;
    bool has_service, has_task, is_mps;
    unsigned task_share_percent;
    unsigned task_priority; /* as CUDA_MPS_CLIENT_PRIORITY; the service has 0 */
    /* Measured p99 of the service and speed of the task, each relative to running alone; 0:
     * none. */
    double p99_ratio, kept;
};

enum { MODE_COUNT = 10, MODE_SERVICE_ALONE = 0, MODE_TASK_ALONE = 1 };
extern const struct mode modes[MODE_COUNT];

struct mode_result {
    double p50_ms, p99_ms; /* of the service */
    double kernels_per_s;  /* of the task */
};

/* Returns 0, -ERR_NOT_FOUND, -ERR_SYNTAX or -ERR_TOO_LARGE. */
int mode_kernels_load(struct error *e, const char *path, struct mode_kernels *ret_kernels);
/* Runs one mode for this time of the device. Returns 0 or -ERR_NO_MEMORY. */
int mode_run(const struct mode *mode, const struct mode_kernels *kernels, double seconds,
             struct mode_result *ret_result);

/* Ratios of model to measurement; 1 without a measurement. */
struct mode_ratios {
    double p99, kept;
};
struct mode_ratios mode_compare(const struct mode_result results[MODE_COUNT], size_t mode);
/* Returns whether `results` have the same order of modes as the measurements, by p99 of the service
 * or by speed of the task, each value above the next by the fraction `margin`. Equal measured
 * values have no order. ret_pair: the first two modes in the wrong order, if any. */
bool mode_is_ranked(const struct mode_result results[MODE_COUNT], bool by_p99, double margin,
                    size_t ret_pair[2]);
