/* Internals of a Gaussian process, for the files that compute with struct gp. */
#pragma once
#include <math.h>

#include "learn/gp.h"

struct gp {
    size_t dimensions;
    size_t count;       /* points added */
    size_t conditioned; /* points in the posterior */
    double points[GP_POINTS_MAX][GP_DIMENSIONS_MAX];
    double values[GP_POINTS_MAX], extra_noise[GP_POINTS_MAX];

    struct gp_kernel kernel;
    double factor[GP_POINTS_MAX][GP_POINTS_MAX]; /* lower triangle: L with L·Lᵀ = covariance */
    double whitened[GP_POINTS_MAX];              /* L⁻¹ · values */
    double weights[GP_POINTS_MAX];               /* covariance⁻¹ · values */

    /* Scratch space of the likelihood. */
    double inverse[GP_POINTS_MAX][GP_POINTS_MAX];
    double slope[GP_POINTS_MAX][GP_POINTS_MAX];
    double covariance[GP_POINTS_MAX][GP_POINTS_MAX];
    double trial[GP_POINTS_MAX][GP_POINTS_MAX], trial_weights[GP_POINTS_MAX];
};

static inline void gp_invert_lengths(const struct gp_kernel *kernel, size_t dimensions,
                                     double *ret_inverse)
{
    for (size_t d = 0; d < dimensions; d++)
        ret_inverse[d] = 1 / kernel->lengths[d];
}

/* Returns k(a, b). Sets *ret_slope to 5/3 · variance · (1 + √5·r) · exp(−√5·r).
 * ret_slope · ((a_d − b_d) / length_d)² is the derivative of k with respect to log(length_d). */
static inline double gp_covariance(const struct gp_kernel *kernel, const double *inverse_lengths,
                                   const double *a, const double *b, size_t dimensions,
                                   double *ret_slope)
{
    double square = 0;
    for (size_t d = 0; d < dimensions; d++) {
        double along = (a[d] - b[d]) * inverse_lengths[d];
        square += along * along;
    }
    square *= 5;
    double r = sqrt(square), decay = kernel->variance * exp(-r);
    *ret_slope = 5.0 / 3.0 * decay * (1 + r);
    return decay * (1 + r + square / 3);
}
