/*
 * A service and a training task on one H200 under each way to share it: what was measured, and the
 * same on the model.
 *
 * The service answers requests at random times (Poisson, 150 a second), each of them one pass of a
 * list of short kernels of about 1.14 ms; the task goes through its own list without a pause. The
 * lists are data/h200_mode_kernels.csv (replay_modes_fit.c says where they come from).
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
    /* Measured: the service's p99 in units of that alone, the task's speed in units of that alone;
     * 0: there is none. */
    double p99_ratio, kept;
};

enum { MODE_COUNT = 10, MODE_SERVICE_ALONE = 0, MODE_TASK_ALONE = 1 };
extern const struct mode modes[MODE_COUNT];

struct mode_result {
    double p50_ms, p99_ms; /* of the service */
    double kernels_per_s;  /* of the task */
};

/* -ERR_NOT_FOUND, -ERR_SYNTAX, -ERR_TOO_LARGE. */
int mode_kernels_load(struct error *e, const char *path, struct mode_kernels *ret_kernels);
/* Runs one mode for so many seconds of the device. -ERR_NO_MEMORY. */
int mode_run(const struct mode *mode, const struct mode_kernels *kernels, double seconds,
             struct mode_result *ret_result);

/* How far a mode's results are from what was measured: model ÷ measured, 1 where there is none. */
struct mode_ratios {
    double p99, kept;
};
struct mode_ratios mode_compare(const struct mode_result results[MODE_COUNT], size_t mode);
/* Whether `results` put the modes into the same order as the measurement, by p99 of the service or
 * by speed of the task, each above the next by the part `margin`; equal measured values have no
 * order. The first two that are not, if any, are left in ret_pair. */
bool mode_is_ranked(const struct mode_result results[MODE_COUNT], bool by_p99, double margin,
                    size_t ret_pair[2]);
