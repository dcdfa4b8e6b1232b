#include "learn/gp_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "learn/descent.h"
#include "learn/linear.h"

enum { N = GP_POINTS_MAX, D = GP_DIMENSIONS_MAX };
static const double log_two_pi = 1.8378770664093454836;

struct gp *gp_new(size_t dimensions)
{
    assert(dimensions >= 1 && dimensions <= D);
    struct gp *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->dimensions = dimensions;
    g->kernel.variance = 1;
    for (size_t d = 0; d < D; d++)
        g->kernel.lengths[d] = 1;
    return g;
}

void gp_free(struct gp *g)
{
    free(g);
}

void gp_clear(struct gp *g)
{
    g->count = g->conditioned = 0;
}

int gp_add(struct gp *g, const double *point, double value, double extra_noise)
{
    if (g->count == N)
        return -ERR_TOO_LARGE;
    memcpy(g->points[g->count], point, g->dimensions * sizeof *point);
    g->values[g->count] = value;
    g->extra_noise[g->count++] = extra_noise;
    return 0;
}

/* Fills the lower triangles of the covariance and of the slopes. */
static void fill_covariance(struct gp *g, const struct gp_kernel *kernel)
{
    double inverse_lengths[D];
    gp_invert_lengths(kernel, g->dimensions, inverse_lengths);
    for (size_t i = 0; i < g->count; i++) {
        for (size_t j = 0; j < i; j++)
            g->covariance[i][j] = gp_covariance(kernel, inverse_lengths, g->points[i], g->points[j],
                                                g->dimensions, &g->slope[i][j]);
        g->covariance[i][i] = kernel->variance;
    }
}

static bool factorise(struct gp *g, const struct gp_kernel *kernel, double factor[N][N],
                      double *weights)
{
    fill_covariance(g, kernel);
    for (size_t i = 0; i < g->count; i++) {
        memcpy(factor[i], g->covariance[i], (i + 1) * sizeof(double));
        factor[i][i] += kernel->noise + g->extra_noise[i];
    }
    if (!linear_cholesky(factor[0], g->count, N))
        return false;
    memcpy(weights, g->values, g->count * sizeof *weights);
    linear_solve_lower(factor[0], g->count, N, weights);
    return true;
}

int gp_condition(struct gp *g, const struct gp_kernel *kernel)
{
    g->kernel = *kernel;
    g->conditioned = 0;
    if (!factorise(g, kernel, g->factor, g->weights))
        return -ERR_INVALID;
    memcpy(g->whitened, g->weights, g->count * sizeof *g->weights);
    linear_solve_lower_transposed(g->factor[0], g->count, N, g->weights);
    g->conditioned = g->count;
    return 0;
}

void gp_predict(const struct gp *g, const double *point, double *ret_mean, double *ret_variance)
{
    double k[N], inverse_lengths[D], unused;
    size_t n = g->conditioned;
    gp_invert_lengths(&g->kernel, g->dimensions, inverse_lengths);
    for (size_t i = 0; i < n; i++)
        k[i] =
            gp_covariance(&g->kernel, inverse_lengths, g->points[i], point, g->dimensions, &unused);
    *ret_mean = linear_dot(k, g->weights, n);
    linear_solve_lower(g->factor[0], n, N, k);
    *ret_variance = fmax(0, g->kernel.variance - linear_dot(k, k, n));
}

/* Computes half the trace of (w·wᵀ − K⁻¹) · ∂K/∂θ for every θ; w are the weights. */
static void differentiate(struct gp *g, const struct gp_kernel *kernel, double *ret_gradient)
{
    size_t n = g->count;
    const double *w = g->trial_weights;
    double variance = 0, noise = 0, along[D] = {0};
    linear_invert_lower(g->trial[0], n, N, g->inverse[0]);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            double inverse = linear_dot(&g->inverse[i][i], &g->inverse[j][i], n - i);
            double share = w[i] * w[j] - inverse;
            variance += share * g->covariance[i][j];
            share *= g->slope[i][j];
            for (size_t d = 0; d < g->dimensions; d++) {
                double distance = g->points[i][d] - g->points[j][d];
                along[d] += share * distance * distance;
            }
        }
        double own = w[i] * w[i] - linear_dot(&g->inverse[i][i], &g->inverse[i][i], n - i);
        variance += 0.5 * own * kernel->variance;
        noise += 0.5 * own * kernel->noise;
    }
    ret_gradient[0] = variance;
    for (size_t d = 0; d < g->dimensions; d++)
        ret_gradient[1 + d] = along[d] / (kernel->lengths[d] * kernel->lengths[d]);
    ret_gradient[1 + g->dimensions] = noise;
}

double gp_likelihood(struct gp *g, const struct gp_kernel *kernel, double *ret_gradient)
{
    size_t n = g->count;
    if (!factorise(g, kernel, g->trial, g->trial_weights))
        return -INFINITY;
    double value = -0.5 * linear_dot(g->trial_weights, g->trial_weights, n);
    for (size_t i = 0; i < n; i++)
        value -= log(g->trial[i][i]);
    value -= 0.5 * (double)n * log_two_pi;
    if (ret_gradient) {
        linear_solve_lower_transposed(g->trial[0], n, N, g->trial_weights);
        differentiate(g, kernel, ret_gradient);
    }
    return value;
}

static void kernel_to_logs(const struct gp *g, const struct gp_kernel *kernel, double *ret_logs)
{
    ret_logs[0] = log(kernel->variance);
    for (size_t d = 0; d < g->dimensions; d++)
        ret_logs[1 + d] = log(kernel->lengths[d]);
    ret_logs[1 + g->dimensions] = log(kernel->noise);
}

static struct gp_kernel kernel_of_logs(const struct gp *g, const double *logs)
{
    struct gp_kernel kernel = {.variance = exp(logs[0]), .noise = exp(logs[1 + g->dimensions])};
    for (size_t d = 0; d < g->dimensions; d++)
        kernel.lengths[d] = exp(logs[1 + d]);
    return kernel;
}

static double unlikelihood(void *context, const double *logs, double *ret_gradient)
{
    struct gp *g = context;
    struct gp_kernel kernel = kernel_of_logs(g, logs);
    double value = -gp_likelihood(g, &kernel, ret_gradient);
    if (isfinite(value))
        for (size_t i = 0; i < g->dimensions + 2; i++)
            ret_gradient[i] = -ret_gradient[i];
    return value;
}

double gp_learn(struct gp *g, const struct gp_search *search, struct gp_kernel *ret_kernel)
{
    double lower[GP_HYPER_MAX], upper[GP_HYPER_MAX], best = INFINITY;
    assert(search->start_count > 0 && g->count > 0);
    kernel_to_logs(g, &search->lower, lower);
    kernel_to_logs(g, &search->upper, upper);
    struct descent_problem problem = {.variables = g->dimensions + 2,
                                      .lower = lower,
                                      .upper = upper,
                                      .value = unlikelihood,
                                      .context = g,
                                      .value_tolerance = search->value_tolerance,
                                      .gradient_tolerance = search->gradient_tolerance,
                                      .calls_max = search->calls_max};
    struct gp_kernel kernel = search->starts[0];
    for (size_t i = 0; i < search->start_count; i++) {
        double logs[GP_HYPER_MAX];
        kernel_to_logs(g, &search->starts[i], logs);
        double value = descent_minimize(&problem, logs);
        if (value < best) {
            best = value;
            kernel = kernel_of_logs(g, logs);
        }
    }
    if (gp_condition(g, &kernel) < 0)
        best = INFINITY;
    *ret_kernel = kernel;
    return -best;
}
