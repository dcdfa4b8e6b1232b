/*
 * A smooth function through noisy points in many dimensions: kernel ridge regression over the
 * standardised coordinates with Cauchy's kernel, 1 / (1 + distance² / (2·length²)), which is as
 * good here as Matérn's and needs neither root nor exponential. Length and noise are those of the
 * smallest leave-one-out error. Far from all points it returns to the median of the values.
 *
 * It is the mean around which trees are grown (learn/predictor.h): trees cannot follow a slope, and
 * with few measurements most of interference is slope.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "learn/stored.h"

enum { SMOOTH_POINTS_MAX = 512, SMOOTH_DIMENSIONS_MAX = 128 };

struct smooth;

/*
 * Fits to `count` points (1 to SMOOTH_POINTS_MAX), row-major with `dimensions` coordinates each. A
 * coordinate that is the same in all points is ignored. -ERR_NO_MEMORY. Into ret_inverse, count ×
 * count numbers that the caller owns, it puts what smooth_leave_out() needs.
 */
int smooth_fit(const double *points, const double *values, size_t count, size_t dimensions,
               double *ret_inverse, struct smooth **ret_smooth);
void smooth_free(struct smooth *s);

/* ret_distance: to the nearest point, in standard deviations a coordinate. */
double smooth_predict(const struct smooth *s, const double *point, double *ret_distance);
/* Of the fitted points i and j, as smooth_predict() measures it. */
double smooth_distance(const struct smooth *s, size_t i, size_t j);
/* How far it lies outside of what the points span, in standard deviations of the coordinate in
 * which that is most; 0 inside. The second is the same of a fitted point and others of them. */
double smooth_outside(const struct smooth *s, const double *point);
double smooth_outside_of(const struct smooth *s, size_t point, const size_t *others,
                         size_t other_count);

/*
 * What a fit without the points of `group` (ascending indices) would predict for them, with the
 * same length and noise. `inverse` is smooth_fit()'s and `values` what was fitted to; `work` has
 * room for group_count² numbers.
 */
void smooth_leave_out(const struct smooth *s, const double *inverse, const double *values,
                      const size_t *group, size_t group_count, double *work,
                      double *ret_predictions);

/* As a part of a saved model. NULL when memory is out or the numbers are no fit: `r` is then marked
 * failed. */
void smooth_save(const struct smooth *s, struct str *to);
struct smooth *smooth_load(struct stored_reader *r, size_t dimensions);
