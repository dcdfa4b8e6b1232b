/*
 * The search for the joint batch sizes of the tasks on one device that make the mean PD (time per
 * unit of progress, relative to running alone) smallest: Bayesian optimisation by the lower
 * confidence bound of a Gaussian process over log2(batch / user's batch) (IADeep; Mudi with the one
 * batch of a service). What it learns from is measured, never what it believed itself.
 *
 * A state machine without clock or I/O: ask for a point, run there, tell what was measured, until
 * it is done. The same answers give the same questions.
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
    TUNER_CHOICES_MAX = 17, /* batch sizes of one task: from a quarter to four times by ¼ octave */
    TUNER_ROUNDS_MAX = 40,
    TUNER_RECALLS_MAX = GP_POINTS_MAX - TUNER_ROUNDS_MAX,
    TUNER_STORED_MAX = 16384, /* bytes of a saved search, at most */
};

struct tuner_choice {
    uint32_t batch;
    uint64_t memory_bytes; /* booked for it, with the margin */
};

/* What one task may run at, ascending. Plain data. */
struct tuner_task {
    uint32_t user_batch;
    size_t choice_count;
    struct tuner_choice choices[TUNER_CHOICES_MAX];
};

struct tuner_limits {
    uint32_t batch_min, batch_max, batch_step; /* all > 0 */
};

/*
 * The grid of one task: its user's batch times 2^(−2…+2) by ¼, rounded to the step and into the
 * limits and memory_batch_max(); the user's own is always among them, as it is. Without a memory
 * model, or with one that knows nothing, every batch is booked with declared_bytes and none above
 * the user's is offered. -ERR_INVALID for zeros.
 */
int tuner_task_make(uint32_t user_batch, const struct tuner_limits *limits,
                    const struct memory_model *memory, uint64_t declared_bytes,
                    struct tuner_task *ret_task);

struct tuner_options {
    uint64_t memory_bytes;      /* of the device: no point books more */
    size_t rounds_max;          /* up to TUNER_ROUNDS_MAX */
    size_t quiet_rounds;        /* done after so many with nothing left to gain */
    double gain_min;            /* less than this part of the PD is nothing */
    double exploration;         /* scales β */
    double failure_probability; /* δ of β */
};
#define TUNER_OPTIONS_DEFAULT                                                                      \
    {                                                                                              \
        .memory_bytes = UINT64_MAX, .rounds_max = 25, .quiet_rounds = 5, .gain_min = 0.01,         \
        .exploration = 0.2, .failure_probability = 0.1                                             \
    }

/* What a predictor expects before anything is measured: log of the mean PD at these batch sizes,
 * one per task. Must be a function of them alone. */
struct tuner_prior {
    double (*log_pd)(void *context, const uint32_t *batches);
    void *context; /* borrowed until tuner_free() */
};

struct tuner;

/* Copies the tasks (1 to TUNER_TASKS_MAX). prior may be NULL. -ERR_INVALID; -ERR_TOO_LARGE when no
 * point fits in memory_bytes; -ERR_NO_MEMORY. */
int tuner_new(struct error *e, const struct tuner_task *tasks, size_t task_count,
              const struct tuner_options *options, const struct tuner_prior *prior,
              struct tuner **ret_tuner);
void tuner_free(struct tuner *t);

/*
 * What an earlier search of these tasks measured, beside other neighbours or before the PD drifted:
 * its shape counts, its level does not. `distrust` is the standard deviation, in log PD, by which
 * it may be off now. Before the first tuner_tell(). -ERR_TOO_LARGE beyond TUNER_RECALLS_MAX,
 * -ERR_INVALID, -ERR_CONFLICT.
 */
int tuner_recall(struct tuner *t, const uint32_t *batches, double mean_pd, double distrust);

/* The batches to run at next, one per task; the same until it is told. The first are the users'
 * own. false when done. */
bool tuner_ask(struct tuner *t, uint32_t *ret_batches);
/* What was measured there. -ERR_INVALID unless finite and > 0, -ERR_CONFLICT when done. */
int tuner_tell(struct tuner *t, double mean_pd);
/* The measured point of lowest posterior mean so far: where to run when done. false before the
 * first tuner_tell(). */
bool tuner_best(const struct tuner *t, uint32_t *ret_batches, double *ret_mean_pd);
size_t tuner_rounds(const struct tuner *t);

/* Appends the search as it stands, TUNER_STORED_MAX bytes at most. */
void tuner_save(const struct tuner *t, struct str *to);
/* Goes on as the saved one would, given the same prior. -ERR_CORRUPT, -ERR_TOO_NEW (see stored.h),
 * -ERR_NO_MEMORY. */
int tuner_load(struct error *e, const void *bytes, size_t length, const struct tuner_prior *prior,
               struct tuner **ret_tuner);
