/*
 * A smooth function through noisy points in many dimensions: kernel ridge regression over
 * standardised coordinates with Cauchy's kernel, 1 / (1 + distance² / (2·length²)). Here this
 * kernel is as good as Matérn's and needs neither root nor exponential. Length and noise minimise
 * the leave-one-out error. Far from all points the function returns to the median of the values.
 *
 * The trees of learn/predictor.h are trained on the residuals of this function, because trees
 * cannot follow a slope. With few measurements, a slope explains most of the interference.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/stored.h"

enum { SMOOTH_POINTS_MAX = 512, SMOOTH_DIMENSIONS_MAX = 128 };

struct smooth;

/*
 * Fits to `count` points (1 to SMOOTH_POINTS_MAX), row-major with `dimensions` coordinates each.
 * Ignores a coordinate that is equal in all points. Writes the input of smooth_leave_out() to
 * ret_inverse, which has count × count numbers and belongs to the caller. Returns -ERR_NO_MEMORY.
 */
int smooth_fit(const double *points, const double *values, size_t count, size_t dimensions,
               double *ret_inverse, struct smooth **ret_smooth);
void smooth_free(struct smooth *s);

/* ret_distance: distance to the nearest point, in standard deviations per coordinate. */
double smooth_predict(const struct smooth *s, const double *point, double *ret_distance);
/* Returns the distance between the fitted points i and j, in the unit of smooth_predict(). */
double smooth_distance(const struct smooth *s, size_t i, size_t j);
/* Return the distance of a point from the range that other points span, in standard deviations of
 * the worst coordinate; 0 inside. smooth_outside() compares a new point with all fitted points,
 * smooth_outside_of() a fitted point with `others`. */
double smooth_outside(const struct smooth *s, const double *point);
double smooth_outside_of(const struct smooth *s, size_t point, const size_t *others,
                         size_t other_count);

/*
 * Predicts the points of `group` (ascending indices) from a fit without that group, with the same
 * length and noise. `inverse` comes from smooth_fit(), `values` are the fitted values, and `work`
 * has room for group_count² numbers.
 */
void smooth_leave_out(const struct smooth *s, const double *inverse, const double *values,
                      const size_t *group, size_t group_count, double *work,
                      double *ret_predictions);

/* Save and load a fit as part of a model. Loading returns NULL and marks `r` as failed if out of
 * memory, or if the numbers are not a fit. */
void smooth_save(const struct smooth *s, struct str *to);
struct smooth *smooth_load(struct stored_reader *r, size_t dimensions);
