/*
 * Interference that was measured, in bounded memory: a uniform sample of all that was ever added
 * (reservoir sampling), from which models are trained. What has been seen often enough, it knows by
 * itself.
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
    OBSERVATIONS_PATTERN_MIN = 3, /* measurements of one pattern that make a prediction needless */
    OBSERVATIONS_STORED_MAX = OBSERVATIONS_MAX * 1024,
};

/* One measurement. */
struct observation {
    uint64_t pattern; /* equal for features that are practically the same */
    size_t neighbour_count;
    uint64_t families[1 + FEATURES_NEIGHBOURS_MAX]; /* its own, then the neighbours' */
    double log_interference;
    double features[FEATURES_ALL];
};

struct observations;

/* The seed decides what is forgotten. NULL when memory is out. */
struct observations *observations_new(uint64_t seed);
void observations_free(struct observations *o);
/* For a thread that trains; NULL when memory is out. */
struct observations *observations_copy(const struct observations *o);

/* `interference`: time of an iteration beside the neighbours, of that alone. -ERR_INVALID unless it
 * is finite and above 0, or when there are too many neighbours. */
int observations_add(struct observations *o, const struct task_profile *own,
                     const struct task_profile *neighbours, size_t neighbour_count,
                     double interference);
size_t observations_count(const struct observations *o);
/* How many were ever added: says whether a model is out of date. */
uint64_t observations_total(const struct observations *o);
const struct observation *observations_at(const struct observations *o, size_t index);

/* The pattern of a vector of features. */
uint64_t observations_pattern(const double features[FEATURES_ALL]);
/* Mean and standard error of the logarithm, when the pattern is there OBSERVATIONS_PATTERN_MIN
 * times. */
bool observations_recall(const struct observations *o, uint64_t pattern, double *ret_mean,
                         double *ret_error);

/* Appends at most OBSERVATIONS_STORED_MAX bytes. */
void observations_save(const struct observations *o, struct str *to);
/* -ERR_CORRUPT, -ERR_TOO_NEW: see learn/stored.h; -ERR_NO_MEMORY. */
int observations_load(struct error *e, const void *bytes, size_t length,
                      struct observations **ret_observations);
