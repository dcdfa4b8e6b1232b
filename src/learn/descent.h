/*
 * Minimum of a smooth function within bounds: BFGS on the free variables, projected onto the box.
 * Suits a few variables and a start near the minimum.
 */
#pragma once
#include <stddef.h>

enum { DESCENT_VARIABLES_MAX = 16 };

struct descent_problem {
    size_t variables;
    const double *lower, *upper; /* bounds of each variable; borrowed */
    /* Returns the function and its gradient at x; INFINITY where the function is undefined. */
    double (*value)(void *context, const double *x, double *ret_gradient);
    void *context;
    /* The search ends when a step lowers the value by less than value_tolerance · max(|value|, 1),
     * when no component of the projected gradient exceeds gradient_tolerance, or after calls_max
     * calls. */
    double value_tolerance, gradient_tolerance;
    size_t calls_max;
};

/* Clamps x to the bounds, moves x to a local minimum and returns the value there. */
double descent_minimize(const struct descent_problem *problem, double *x);
