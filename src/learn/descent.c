#include "learn/descent.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "learn/linear.h"

enum { MAX = DESCENT_VARIABLES_MAX, HALVINGS_MAX = 30 };
static const double armijo = 1e-4, curvature_min = 1e-10;

struct descent {
    const struct descent_problem *problem;
    size_t n, calls;
    double value;
    double gradient[MAX];
    double inverse[MAX][MAX]; /* approximates the inverse of the second derivatives */
    bool scaled;              /* `inverse` is scaled by a first step */
};

static double inside(const struct descent_problem *p, size_t i, double x)
{
    return fmin(fmax(x, p->lower[i]), p->upper[i]);
}

static void forget_curvature(struct descent *d)
{
    memset(d->inverse, 0, sizeof d->inverse);
    for (size_t i = 0; i < d->n; i++)
        d->inverse[i][i] = 1;
    d->scaled = false;
}

/* Returns whether a variable is at a bound and the value falls only outwards. */
static bool is_held(const struct descent *d, const double *x, size_t i)
{
    return (x[i] <= d->problem->lower[i] && d->gradient[i] > 0) ||
           (x[i] >= d->problem->upper[i] && d->gradient[i] < 0);
}

static double projected_gradient(const struct descent *d, const double *x)
{
    double largest = 0;
    for (size_t i = 0; i < d->n; i++)
        largest = fmax(largest, fabs(inside(d->problem, i, x[i] - d->gradient[i]) - x[i]));
    return largest;
}

/* Computes a descent direction over the variables that are not held. */
static void choose_direction(const struct descent *d, const double *x, double *ret_direction)
{
    double longest = 0;
    for (size_t i = 0; i < d->n; i++) {
        ret_direction[i] = 0;
        if (is_held(d, x, i))
            continue;
        for (size_t j = 0; j < d->n; j++)
            if (!is_held(d, x, j))
                ret_direction[i] -= d->inverse[i][j] * d->gradient[j];
        longest = fmax(longest, fabs(ret_direction[i]));
    }
    if (d->scaled || longest <= 1)
        return;
    for (size_t i = 0; i < d->n; i++)
        ret_direction[i] /= longest; /* the length of a first gradient has no meaning */
}

/* Updates the inverse by BFGS, for the step s and the change y of the gradient. */
static void learn_curvature(struct descent *d, const double *s, const double *y)
{
    double hy[MAX], sy = linear_dot(s, y, d->n), yy = linear_dot(y, y, d->n);
    if (sy <= curvature_min * sqrt(linear_dot(s, s, d->n) * yy))
        return;
    if (!d->scaled)
        for (size_t i = 0; i < d->n; i++)
            d->inverse[i][i] = sy / yy;
    d->scaled = true;
    for (size_t i = 0; i < d->n; i++)
        hy[i] = linear_dot(d->inverse[i], y, d->n);
    double factor = (1 + linear_dot(y, hy, d->n) / sy) / sy;
    for (size_t i = 0; i < d->n; i++)
        for (size_t j = 0; j < d->n; j++)
            d->inverse[i][j] += factor * s[i] * s[j] - (hy[i] * s[j] + s[i] * hy[j]) / sy;
}

/* Shortens the step until the value falls enough, and moves x there. Returns the decrease of the
 * value; 0 if there is none, or if no calls are left. */
static double step_along(struct descent *d, const double *direction, double *x)
{
    double next[MAX], gradient[MAX], s[MAX], y[MAX], length = 1;
    for (int halving = 0; halving < HALVINGS_MAX && d->calls < d->problem->calls_max; halving++) {
        double slope = 0;
        for (size_t i = 0; i < d->n; i++) {
            next[i] = inside(d->problem, i, x[i] + length * direction[i]);
            s[i] = next[i] - x[i];
            slope += s[i] * d->gradient[i];
        }
        double value = d->problem->value(d->problem->context, next, gradient);
        d->calls++;
        if (value <= d->value + armijo * slope && slope < 0) {
            double fall = d->value - value;
            for (size_t i = 0; i < d->n; i++)
                y[i] = gradient[i] - d->gradient[i];
            d->value = value;
            memcpy(x, next, d->n * sizeof *x);
            memcpy(d->gradient, gradient, d->n * sizeof *gradient);
            learn_curvature(d, s, y);
            return fall;
        }
        /* Go to the minimum of the parabola through the known values, within limits on the
         * change. */
        double rise = value - d->value - slope;
        double shorter = isfinite(rise) && rise > 0 ? -slope / (2 * rise) : 0.1;
        length *= fmin(fmax(shorter, 0.1), 0.5);
    }
    return 0;
}

double descent_minimize(const struct descent_problem *problem, double *x)
{
    struct descent d = {.problem = problem, .n = problem->variables, .calls = 1};
    assert(d.n <= MAX);
    for (size_t i = 0; i < d.n; i++)
        x[i] = inside(problem, i, x[i]);
    d.value = problem->value(problem->context, x, d.gradient);
    if (!isfinite(d.value))
        return d.value;
    forget_curvature(&d);
    while (d.calls < problem->calls_max &&
           projected_gradient(&d, x) > problem->gradient_tolerance) {
        double direction[MAX];
        choose_direction(&d, x, direction);
        bool was_scaled = d.scaled;
        double before = d.value, fall = step_along(&d, direction, x);
        if (fall > problem->value_tolerance * fmax(fmax(fabs(before), fabs(d.value)), 1))
            continue;
        if (fall > 0 || !was_scaled)
            break;
        /* The curvature led nowhere: retry along the gradient. */
        forget_curvature(&d);
    }
    return d.value;
}
