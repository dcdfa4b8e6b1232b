/*
 * The minimum of a smooth function within bounds: BFGS on the variables that are free, projected
 * onto the box. For a handful of variables, started near enough.
 */
#pragma once
#include <stddef.h>

enum { DESCENT_VARIABLES_MAX = 16 };

struct descent_problem {
    size_t variables;
    const double *lower, *upper; /* of each variable; borrowed */
    /* The function and its gradient at x; INFINITY where it has no value. */
    double (*value)(void *context, const double *x, double *ret_gradient);
    void *context;
    /* It ends when a step lowers the value by less than value_tolerance · max(|value|, 1), when no
     * component of the projected gradient exceeds gradient_tolerance, or after so many calls: */
    double value_tolerance, gradient_tolerance;
    size_t calls_max;
};

/* Moves x (put inside the bounds first) to a local minimum and returns the value there. */
double descent_minimize(const struct descent_problem *problem, double *x);
