/*
 * Gaussian process regression with a Matérn-5/2 kernel, one length per dimension, and noise:
 *
 *   k(x, x') = variance · (1 + √5·r + 5/3·r²) · exp(−√5·r),   r² = Σ ((x_d − x'_d) / length_d)²
 *
 * The prior mean is 0; a caller with a better prior subtracts that prior from the values. Inference
 * is exact, by Cholesky factors, for the few points that one search measures.
 */
#pragma once
#include <stddef.h>

enum {
    GP_POINTS_MAX = 64,
    GP_DIMENSIONS_MAX = 8,
    GP_HYPER_MAX = GP_DIMENSIONS_MAX + 2, /* variance, lengths, noise */
};

struct gp_kernel {
    double variance; /* variance of the function */
    double lengths[GP_DIMENSIONS_MAX];
    double noise; /* variance of a measurement */
};

struct gp;

/* dimensions: 1 to GP_DIMENSIONS_MAX. Returns NULL if out of memory. */
struct gp *gp_new(size_t dimensions);
void gp_free(struct gp *g);

/* Removes all points. */
void gp_clear(struct gp *g);
/* Adds a measurement. extra_noise is the variance of this measurement beyond the kernel's noise: 0,
 * or larger for an old measurement. Returns -ERR_TOO_LARGE beyond GP_POINTS_MAX. The posterior does
 * not change until gp_condition(). */
int gp_add(struct gp *g, const double *point, double value, double extra_noise);

/* Computes the posterior of all points under this kernel. If the covariance is not positive
 * definite, returns -ERR_INVALID, and the posterior includes no points. */
int gp_condition(struct gp *g, const struct gp_kernel *kernel);
/* Returns the posterior at a point: mean, and variance without noise. Before the first
 * gp_condition() the mean is 0 and the variance is 1. */
void gp_predict(const struct gp *g, const double *point, double *ret_mean, double *ret_variance);

/* Returns the log marginal likelihood of the points. Writes to ret_gradient its derivatives with
 * respect to the logarithms of variance, lengths and noise, in that order. ret_gradient may be
 * NULL. Returns −INFINITY where the covariance is not positive definite. */
double gp_likelihood(struct gp *g, const struct gp_kernel *kernel, double *ret_gradient);

struct gp_search {
    struct gp_kernel lower, upper;  /* bounds, all > 0 */
    const struct gp_kernel *starts; /* borrowed */
    size_t start_count;
    double value_tolerance, gradient_tolerance; /* see learn/descent.h */
    size_t calls_max;                           /* calls of the likelihood from each start */
};
/* Computes the posterior under the kernel with the largest likelihood that the search finds from
 * the starts. Returns that likelihood. Requires a point and a start. If no kernel is found, returns
 * -INFINITY, and the posterior includes no points. */
double gp_learn(struct gp *g, const struct gp_search *search, struct gp_kernel *ret_kernel);
