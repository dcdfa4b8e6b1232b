/*
 * Progress degradation (PD, after IADeep): the factor by which neighbours and a changed batch size
 * slow a task's progress. The module also computes the effects of the batch size on training:
 * gradient noise scale, statistical efficiency, learning rate.
 *
 * Batch sizes are in samples and > 0. Times share one unit and are > 0. Noise scales are in samples
 * and ≥ 0.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Returns the progress per sample at `batch` relative to `batch_reference`: (φ + m0) / (φ + m). */
double degradation_efficiency(double noise_scale, double batch_reference, double batch);

struct degradation_run {
    double batch_reference; /* the user's batch size */
    double batch;           /* current batch size */
    double time_reference;  /* time of an iteration alone, at batch_reference */
    double time_beside;     /* time of an iteration beside the neighbours, at batch */
    double noise_scale;
};
/* Returns the time per unit of progress, relative to the task alone at the user's batch size. */
double degradation(const struct degradation_run *run);

/*
 * Estimator of the gradient noise scale from sampled steps. Each sample measures the gradient
 * twice: on a part of the batch and on the whole batch. Plain data; all zero means no samples.
 */
struct noise_scale {
    double square;   /* moving average of |G|², without bias correction */
    double noise;    /* moving average of S, without bias correction */
    double measured; /* moving average of |mean gradient|², without bias correction */
    uint64_t samples;
};

enum { NOISE_SCALE_SAMPLES_MIN = 50 };

/* Adds one step: the squared norm of the gradient of `batch` samples, and the squared norm for a
 * `part` of the samples, averaged over the parts; part < batch. Ignores figures that are not
 * finite. */
void noise_scale_observe(struct noise_scale *n, double part, double batch, double part_square,
                         double batch_square);
/* Returns false below NOISE_SCALE_SAMPLES_MIN samples; the task then keeps the user's batch size.
 * The result is at most 1000 · batch_reference, even if the noise hides the gradient. */
bool noise_scale_get(const struct noise_scale *n, double batch_reference, double *ret_noise_scale);
/* Returns the sampling period, in steps, at which the measurement costs about 1 % of the time.
 * split_time and plain_time: time of a step with and without the measurement. */
uint64_t noise_scale_period(double split_time, double plain_time);

enum learning_rate_rule {
    LEARNING_RATE_NONE,
    LEARNING_RATE_LINEAR,
    LEARNING_RATE_SQRT,     /* for Adam and similar optimizers */
    LEARNING_RATE_ADASCALE, /* for SGD */
};
/* Returns the factor for the learning rate at `batch`. */
double learning_rate_gain(enum learning_rate_rule rule, double noise_scale, double batch_reference,
                          double batch);
