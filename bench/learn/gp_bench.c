/*
 * gp_bench: one Gaussian process problem from standard input, numbers separated by blanks:
 *
 *   dimensions points queries starts times
 *   kernel: variance, lengths, noise
 *   per point its coordinates and value; per query its coordinates
 *   lower and upper bounds, then the starts, each as a kernel
 *
 * Prints for every query the mean and deviation under the kernel, then the result of learning from
 * the starts: "likelihood variance lengths noise ms", where ms is the least of `times` runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "learn/gp.h"

enum { STARTS_MAX = 32 };

static double read_number(void)
{
    double value;
    if (scanf("%lf", &value) != 1) {
        fprintf(stderr, "gp_bench: too few numbers\n");
        exit(1);
    }
    return value;
}

static void read_numbers(double *ret_values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ret_values[i] = read_number();
}

static struct gp_kernel read_kernel(size_t dimensions)
{
    struct gp_kernel kernel = {.variance = read_number()};
    read_numbers(kernel.lengths, dimensions);
    kernel.noise = read_number();
    return kernel;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(void)
{
    size_t dimensions = (size_t)read_number(), points = (size_t)read_number();
    size_t queries = (size_t)read_number(), starts = (size_t)read_number();
    size_t times = (size_t)read_number();
    if (dimensions < 1 || dimensions > GP_DIMENSIONS_MAX || starts < 1 || starts > STARTS_MAX)
        return 2;
    struct gp_kernel kernel = read_kernel(dimensions), kernels[STARTS_MAX], learned = {0};
    struct gp *g = gp_new(dimensions);
    double x[GP_DIMENSIONS_MAX], mean, variance, likelihood = 0, least = INFINITY;
    if (!g)
        return 1;
    for (size_t i = 0; i < points; i++) {
        read_numbers(x, dimensions);
        if (gp_add(g, x, read_number(), 0) < 0)
            return 1;
    }
    if (gp_condition(g, &kernel) < 0)
        return 1;
    for (size_t i = 0; i < queries; i++) {
        read_numbers(x, dimensions);
        gp_predict(g, x, &mean, &variance);
        printf("%.17g %.17g\n", mean, sqrt(variance));
    }
    struct gp_search search = {.lower = read_kernel(dimensions)};
    search.upper = read_kernel(dimensions);
    for (size_t i = 0; i < starts; i++)
        kernels[i] = read_kernel(dimensions);
    search.starts = kernels;
    search.start_count = starts;
    search.value_tolerance = 2.220446049250313e-09; /* as in scipy */
    search.gradient_tolerance = 1e-5;
    search.calls_max = 15000;
    for (size_t i = 0; i < times; i++) {
        double before = cpu_ms();
        likelihood = gp_learn(g, &search, &learned);
        least = fmin(least, cpu_ms() - before);
    }
    printf("%.17g %.17g", likelihood, learned.variance);
    for (size_t d = 0; d < dimensions; d++)
        printf(" %.17g", learned.lengths[d]);
    printf(" %.17g %.4f\n", learned.noise, least);
    gp_free(g);
    return 0;
}
