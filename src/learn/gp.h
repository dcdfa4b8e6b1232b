/*
 * Gaussian process regression with a Matérn-5/2 kernel, one length per dimension, and noise:
 *
 *   k(x, x') = variance · (1 + √5·r + 5/3·r²) · exp(−√5·r),   r² = Σ ((x_d − x'_d) / length_d)²
 *
 * The prior mean is 0: who has a better one subtracts it first. Exact, by Cholesky factors, for the
 * few points that one search measures.
 */
#pragma once
#include <stddef.h>

enum {
    GP_POINTS_MAX = 64,
    GP_DIMENSIONS_MAX = 8,
    GP_HYPER_MAX = GP_DIMENSIONS_MAX + 2, /* variance, the lengths, noise */
};

struct gp_kernel {
    double variance; /* of the function */
    double lengths[GP_DIMENSIONS_MAX];
    double noise; /* variance of a measurement */
};

struct gp;

/* dimensions from 1 to GP_DIMENSIONS_MAX. NULL when memory is out. */
struct gp *gp_new(size_t dimensions);
void gp_free(struct gp *g);

/* Forgets all points. */
void gp_clear(struct gp *g);
size_t gp_count(const struct gp *g);
/* One measurement more. extra_noise is a variance that this one has above the kernel's noise: 0, or
 * how little an old one is trusted. -ERR_TOO_LARGE beyond GP_POINTS_MAX. What was conditioned
 * before stays until gp_condition(). */
int gp_add(struct gp *g, const double *point, double value, double extra_noise);

/* Makes the posterior of all points under this kernel. -ERR_INVALID when the covariance is not
 * positive definite: the posterior is then that of no points. */
int gp_condition(struct gp *g, const struct gp_kernel *kernel);
/* The posterior at a point: mean, and variance without noise. Before any gp_condition() it is 0
 * and 1. */
void gp_predict(const struct gp *g, const double *point, double *ret_mean, double *ret_variance);

/* Log marginal likelihood of the points, and its derivatives by the logarithms of variance,
 * lengths and noise, in that order. ret_gradient may be NULL. −INFINITY where it is not
 * positive definite. */
double gp_likelihood(struct gp *g, const struct gp_kernel *kernel, double *ret_gradient);

struct gp_search {
    struct gp_kernel lower, upper;  /* bounds, all > 0 */
    const struct gp_kernel *starts; /* borrowed */
    size_t start_count;
    double value_tolerance, gradient_tolerance; /* see learn/descent.h */
    size_t calls_max;                           /* of the likelihood, from each start */
};
/* Conditions on the kernel of the largest likelihood that is found from the starts; returns that
 * likelihood. Needs a point and a start. -INFINITY, and the posterior of no points, when there is
 * none. */
double gp_learn(struct gp *g, const struct gp_search *search, struct gp_kernel *ret_kernel);
