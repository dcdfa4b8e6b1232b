/*
 * Measured interference in bounded memory: a uniform sample of all measurements (reservoir
 * sampling), from which models are trained. A pattern that was measured often enough needs no
 * model.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/features.h"

enum {
    OBSERVATIONS_MAX = 2048,
    OBSERVATIONS_PATTERN_MIN = 3, /* measurements of a pattern that replace a prediction */
    OBSERVATIONS_STORED_MAX = OBSERVATIONS_MAX * 1024,
};

/* One measurement. */
struct observation {
    uint64_t pattern; /* equal for practically equal features */
    size_t neighbour_count;
    uint64_t families[1 + FEATURES_NEIGHBOURS_MAX]; /* of the task, then of its neighbours */
    double log_interference;
    double features[FEATURES_ALL];
};

struct observations;

/* The seed selects the measurements that are dropped. Returns NULL if out of memory. */
struct observations *observations_new(uint64_t seed);
void observations_free(struct observations *o);
/* Copies the observations for a training thread; NULL if out of memory. */
struct observations *observations_copy(const struct observations *o);

/* Adds a measurement. `interference`: time of an iteration beside the neighbours / time alone.
 * Returns -ERR_INVALID if the ratio is not finite and > 0, or if there are too many neighbours. */
int observations_add(struct observations *o, const struct task_profile *own,
                     const struct task_profile *neighbours, size_t neighbour_count,
                     double interference);
size_t observations_count(const struct observations *o);
/* Returns the number of measurements ever added, which shows whether a model is stale. */
uint64_t observations_total(const struct observations *o);
const struct observation *observations_at(const struct observations *o, size_t index);

/* Returns the pattern of a feature vector. */
uint64_t observations_pattern(const double features[FEATURES_ALL]);
/* Returns mean and standard error of the logarithms for the pattern; false below
 * OBSERVATIONS_PATTERN_MIN measurements. */
bool observations_recall(const struct observations *o, uint64_t pattern, double *ret_mean,
                         double *ret_error);

/* Appends at most OBSERVATIONS_STORED_MAX bytes. */
void observations_save(const struct observations *o, struct str *to);
/* Returns -ERR_NO_MEMORY, or -ERR_CORRUPT or -ERR_TOO_NEW as described in learn/stored.h. */
int observations_load(struct error *e, const void *bytes, size_t length,
                      struct observations **ret_observations);
