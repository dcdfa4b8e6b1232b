/*
 * Search for the joint batch sizes of the tasks on one device that minimise the mean PD (time per
 * unit of progress, relative to running alone): Bayesian optimisation by the lower confidence bound
 * of a Gaussian process over log2(batch / user's batch). The method follows IADeep, and Mudi for
 * the batch of a single service. The search learns only from measurements, never from its own
 * predictions.
 *
 * The search is a state machine without clock or I/O. The caller asks for a point, runs the tasks
 * at that point and reports the measurement, until the search is done. The search is deterministic:
 * the same measurements produce the same sequence of points.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/gp.h"
#include "learn/memory.h"

enum {
    TUNER_TASKS_MAX = GP_DIMENSIONS_MAX,
    /* Batch sizes of one task: from a quarter to four times the user's batch size, in steps of ¼
     * octave. */
    TUNER_CHOICES_MAX = 17,
    TUNER_ROUNDS_MAX = 40,
    TUNER_RECALLS_MAX = GP_POINTS_MAX - TUNER_ROUNDS_MAX,
    TUNER_STORED_MAX = 16384, /* upper limit of the bytes of a saved search */
};

struct tuner_choice {
    uint32_t batch;
    uint64_t memory_bytes; /* booked for this batch, including the margin */
};

/* Batch sizes that one task may use, ascending. Plain data. */
struct tuner_task {
    uint32_t user_batch;
    size_t choice_count;
    struct tuner_choice choices[TUNER_CHOICES_MAX];
};

struct tuner_limits {
    uint32_t batch_min, batch_max, batch_step; /* all > 0 */
};

/*
 * Builds the grid of one task: its user's batch times 2^(−2…+2) in steps of ¼, rounded to
 * batch_step and clamped to the limits and memory_batch_max(). The grid always contains the user's
 * batch, unrounded. Without measurements in `memory` (or if NULL) every batch is booked with
 * declared_bytes, and no batch exceeds the user's batch. Returns -ERR_INVALID for zeros.
 */
int tuner_task_make(uint32_t user_batch, const struct tuner_limits *limits,
                    const struct memory_model *memory, uint64_t declared_bytes,
                    struct tuner_task *ret_task);

struct tuner_options {
    uint64_t memory_bytes; /* memory of the device, which no point may exceed */
    size_t rounds_max;     /* at most TUNER_ROUNDS_MAX */
    /* Number of consecutive rounds without an expected gain after which the search ends. */
    size_t quiet_rounds;
    /* Smallest reduction of the PD that counts as a gain, as a fraction. */
    double gain_min;
    double exploration;         /* scale of β */
    double failure_probability; /* δ of β */
};
#define TUNER_OPTIONS_DEFAULT                                                                      \
    {                                                                                              \
        .memory_bytes = UINT64_MAX, .rounds_max = 25, .quiet_rounds = 5, .gain_min = 0.01,         \
        .exploration = 0.2, .failure_probability = 0.1                                             \
    }

/* Prior of the search: the predicted logarithm of the mean PD at these batch sizes, one per task.
 * The prior must depend on the batch sizes alone. */
struct tuner_prior {
    double (*log_pd)(void *context, const uint32_t *batches);
    void *context; /* borrowed until tuner_free() */
};

struct tuner;

/* Copies the tasks (1 to TUNER_TASKS_MAX). prior may be NULL. Returns -ERR_INVALID, -ERR_NO_MEMORY,
 * or -ERR_TOO_LARGE if no point fits in memory_bytes. */
int tuner_new(struct error *e, const struct tuner_task *tasks, size_t task_count,
              const struct tuner_options *options, const struct tuner_prior *prior,
              struct tuner **ret_tuner);
void tuner_free(struct tuner *t);

/*
 * Adds a measurement of an earlier search of these tasks, made beside other neighbours or before
 * the PD drifted. The search uses the differences between such measurements, not their level;
 * `distrust` is the standard deviation of the error of these differences, in log PD. The call must
 * precede the first tuner_tell(). Returns -ERR_TOO_LARGE beyond TUNER_RECALLS_MAX, -ERR_INVALID or
 * -ERR_CONFLICT.
 */
int tuner_recall(struct tuner *t, const uint32_t *batches, double mean_pd, double distrust);

/* Returns the batches to run next, one per task, unchanged until tuner_tell(). The first point is
 * the users' own batches. Returns false when the search is done. */
bool tuner_ask(struct tuner *t, uint32_t *ret_batches);
/* Reports the measurement at the current point. Returns -ERR_INVALID unless finite and > 0, or
 * -ERR_CONFLICT when the search is done. */
int tuner_tell(struct tuner *t, double mean_pd);
/* Returns the measured point with the lowest posterior mean, at which the tasks should run after
 * the search. Returns false before the first tuner_tell(). */
bool tuner_best(const struct tuner *t, uint32_t *ret_batches, double *ret_mean_pd);
size_t tuner_rounds(const struct tuner *t);

/* Appends the current state of the search, at most TUNER_STORED_MAX bytes. */
void tuner_save(const struct tuner *t, struct str *to);
/* Restores a search, which continues like the saved search if the prior is the same. Returns
 * -ERR_NO_MEMORY, or -ERR_CORRUPT or -ERR_TOO_NEW as described in stored.h. */
int tuner_load(struct error *e, const void *bytes, size_t length, const struct tuner_prior *prior,
               struct tuner **ret_tuner);
