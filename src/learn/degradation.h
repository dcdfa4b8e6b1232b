/*
 * How much slower a task progresses beside others and at another batch size than the one its user
 * chose (IADeep's PD), and what the batch size does to training: gradient noise scale, statistical
 * efficiency, learning rate.
 *
 * Batch sizes are in samples and > 0, times in one unit for all and > 0, noise scales in samples
 * and ≥ 0.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Progress per sample at `batch`, of that at `batch_reference`: (φ + m0) / (φ + m). */
double degradation_efficiency(double noise_scale, double batch_reference, double batch);

struct degradation_run {
    double batch_reference; /* the user's */
    double batch;           /* now */
    double time_reference;  /* of an iteration, alone, at batch_reference */
    double time_beside;     /* of an iteration, beside the neighbours, at batch */
    double noise_scale;
};
/* Time per unit of progress, relative to running alone at the user's batch size; there it is 1. */
double degradation(const struct degradation_run *run);

/*
 * The gradient noise scale, from steps of which the gradient was taken twice: of a part of the
 * batch and of all of it. Plain data; all zero is one that has seen nothing.
 */
struct noise_scale {
    double square;   /* moving averages, not yet corrected for their beginning: of |G|², */
    double noise;    /* of S, */
    double measured; /* and of |mean gradient|² */
    uint64_t samples;
};

enum { NOISE_SCALE_SAMPLES_MIN = 50 };

/* One step: squares of the norms of the gradient of `batch` samples, and of a `part` of them (mean
 * over the parts there were); part < batch. Figures that are not finite are left out. */
void noise_scale_observe(struct noise_scale *n, double part, double batch, double part_square,
                         double batch_square);
/* false, and nothing written, below NOISE_SCALE_SAMPLES_MIN samples: the batch size then stays the
 * user's. At most 1000 · batch_reference, which also stands for a gradient that drowns in noise. */
bool noise_scale_get(const struct noise_scale *n, double batch_reference, double *ret_noise_scale);
/* Sampled every so many steps the measurement costs about 1 %; times of a step with it and
 * without. */
uint64_t noise_scale_period(double split_time, double plain_time);

enum learning_rate_rule {
    LEARNING_RATE_NONE,
    LEARNING_RATE_LINEAR,
    LEARNING_RATE_SQRT,     /* for Adam and its like */
    LEARNING_RATE_ADASCALE, /* for SGD */
};
/* What the learning rate is multiplied with at `batch`. */
double learning_rate_gain(enum learning_rate_rule rule, double noise_scale, double batch_reference,
                          double batch);
