#include "learn/smooth.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "learn/linear.h"
#include "learn/order.h"

/* Candidates: lengths in units of the mean distance between two points, √(2·dimensions); noise in
 * units of the values' variance. The search starts with the first of each. */
static const double lengths[] = {0.7, 0.25, 0.45, 1.1, 1.8};
static const double noises[] = {0.01, 0.003, 0.03, 0.1, 0.3};
enum {
    LENGTHS = sizeof lengths / sizeof lengths[0],
    NOISES = sizeof noises / sizeof noises[0],
    SEARCH_POINTS_MAX = 192, /* points that suffice for choosing length and noise */
};

_Static_assert((int)SMOOTH_POINTS_MAX <= (int)LINEAR_ROWS_MAX, "all points are factorised at once");

struct smooth {
    size_t count, dimensions, used; /* used: coordinates that vary */
    size_t axes[SMOOTH_DIMENSIONS_MAX];
    /* Of the used coordinates. */
    double centre[SMOOTH_DIMENSIONS_MAX], scale[SMOOTH_DIMENSIONS_MAX];
    double length, median;
    double *points;  /* count × used, standardised */
    double *squares; /* count: squared distances of the points from the centre */
    double *weights; /* count */
    double least[SMOOTH_DIMENSIONS_MAX], most[SMOOTH_DIMENSIONS_MAX]; /* range of the points */
};

static inline double kernel(double square, double per_square)
{
    return 1 / (1 + square * per_square);
}

static inline double per_square(double length)
{
    return 1 / (2 * length * length);
}

/* Returns the squared distance from a to a point of s. */
static double square_to(const struct smooth *s, const double *a, double a_square, size_t point)
{
    double dot = linear_dot(a, s->points + point * s->used, s->used);
    double square = a_square + s->squares[point] - 2 * dot;
    return square > 0 ? square : 0;
}

static double per_axis(const struct smooth *s, double square)
{
    return s->used > 0 ? sqrt(square / (double)s->used) : 0;
}

static struct smooth *smooth_new(size_t count, size_t dimensions)
{
    struct smooth *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->count = count;
    s->dimensions = dimensions;
    s->points = calloc(count * dimensions, sizeof *s->points);
    s->squares = calloc(count, sizeof *s->squares);
    s->weights = calloc(count, sizeof *s->weights);
    if (s->points == NULL || s->squares == NULL || s->weights == NULL) {
        smooth_free(s);
        return NULL;
    }
    return s;
}

void smooth_free(struct smooth *s)
{
    if (s == NULL)
        return;
    free(s->points);
    free(s->squares);
    free(s->weights);
    free(s);
}

static void standardise(const struct smooth *s, const double *point, double *ret)
{
    for (size_t k = 0; k < s->used; k++)
        ret[k] = (point[s->axes[k]] - s->centre[k]) * s->scale[k];
}

/* Computes the fields that depend on the points. */
static void note_points(struct smooth *s)
{
    memcpy(s->least, s->points, s->used * sizeof *s->least);
    memcpy(s->most, s->points, s->used * sizeof *s->most);
    for (size_t i = 0; i < s->count; i++) {
        const double *point = s->points + i * s->used;
        s->squares[i] = linear_dot(point, point, s->used);
        for (size_t k = 0; k < s->used; k++) {
            s->least[k] = fmin(s->least[k], point[k]);
            s->most[k] = fmax(s->most[k], point[k]);
        }
    }
}

static void choose_axes(struct smooth *s, const double *points)
{
    for (size_t d = 0; d < s->dimensions; d++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < s->count; i++)
            mean += points[i * s->dimensions + d] / (double)s->count;
        for (size_t i = 0; i < s->count; i++) {
            double off = points[i * s->dimensions + d] - mean;
            square += off * off / (double)s->count;
        }
        if (!(square > 1e-18 * (1 + mean * mean)))
            continue;
        s->axes[s->used] = d;
        s->centre[s->used] = mean;
        s->scale[s->used++] = 1 / sqrt(square);
    }
    for (size_t i = 0; i < s->count; i++)
        standardise(s, points + i * s->dimensions, s->points + i * s->used);
    note_points(s);
}

/* One fit to some of the points, n × n each; every try overwrites the last two arrays. */
struct attempt {
    size_t n;
    double *squares, *factor, *columns; /* factor: K, then L; columns: L⁻¹, stored as rows */
    double *off;                        /* values minus their median */
    double *weights;
};

static void attempt_done(struct attempt *a)
{
    free(a->squares);
    free(a->factor);
    free(a->columns);
    free(a->off);
    free(a->weights);
}

static int attempt_init(struct attempt *a, const struct smooth *s, const double *values, size_t n)
{
    *a = (struct attempt){.n = n};
    a->squares = calloc(n * n, sizeof *a->squares);
    a->factor = calloc(n * n, sizeof *a->factor);
    a->columns = calloc(n * n, sizeof *a->columns);
    a->off = calloc(n, sizeof *a->off);
    a->weights = calloc(n, sizeof *a->weights);
    if (a->squares == NULL || a->factor == NULL || a->columns == NULL || a->off == NULL ||
        a->weights == NULL) {
        attempt_done(a);
        return -ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = i * s->count / n;
        a->off[i] = values[at] - s->median;
        for (size_t j = 0; j < i; j++)
            a->squares[i * n + j] =
                square_to(s, s->points + at * s->used, s->squares[at], j * s->count / n);
    }
    return 0;
}

/* Computes the kernel weights and returns the mean leave-one-out error; INFINITY if the kernel has
 * no factor. */
static double attempt_fit(struct attempt *a, double length, double noise)
{
    size_t n = a->n;
    double scale = per_square(length);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            a->factor[i * n + j] = kernel(a->squares[i * n + j], scale);
        a->factor[i * n + i] = 1 + noise;
    }
    if (!linear_cholesky(a->factor, n, n))
        return INFINITY;
    linear_invert_lower(a->factor, n, n, a->columns);
    memcpy(a->weights, a->off, n * sizeof *a->off);
    linear_solve_lower(a->factor, n, n, a->weights);
    linear_solve_lower_transposed(a->factor, n, n, a->weights);
    double error = 0;
    for (size_t i = 0; i < n; i++) {
        const double *column = a->columns + i * n + i;
        error += fabs(a->weights[i] / linear_dot(column, column, n - i)) / (double)n;
    }
    return error;
}

/* Searches over the lengths, then over the noises at the best length. */
static double search(struct attempt *a, double unit, double *ret_noise)
{
    double best = INFINITY, length = lengths[0] * unit, noise = noises[0];
    for (size_t i = 0; i < LENGTHS; i++) {
        double error = attempt_fit(a, lengths[i] * unit, noises[0]);
        if (error < best) {
            best = error;
            length = lengths[i] * unit;
        }
    }
    for (size_t i = 1; i < NOISES; i++) {
        double error = attempt_fit(a, length, noises[i]);
        if (error < best) {
            best = error;
            noise = noises[i];
        }
    }
    *ret_noise = noise;
    return length;
}

static int choose_length(struct smooth *s, const double *values, double *ret_noise)
{
    struct attempt a;
    size_t n = s->count < SEARCH_POINTS_MAX ? s->count : SEARCH_POINTS_MAX;
    int rc = attempt_init(&a, s, values, n);
    if (rc < 0)
        return rc;
    s->length = search(&a, sqrt(2 * (double)(s->used > 0 ? s->used : 1)), ret_noise);
    attempt_done(&a);
    return 0;
}

/* Computes the weights of all points and the inverse of their kernel. */
static int fit_all(struct smooth *s, const double *values, double noise, double *ret_inverse)
{
    struct attempt a;
    size_t n = s->count;
    int rc = attempt_init(&a, s, values, n);
    if (rc < 0)
        return rc;
    if (attempt_fit(&a, s->length, noise) == INFINITY) {
        /* With noise no such kernel is singular; in case of rounding, the median is still a valid
         * answer. */
        memset(a.weights, 0, n * sizeof *a.weights);
        memset(a.columns, 0, n * n * sizeof *a.columns);
    }
    memcpy(s->weights, a.weights, n * sizeof *a.weights);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++)
            ret_inverse[i * n + j] = ret_inverse[j * n + i] =
                linear_dot(a.columns + i * n + i, a.columns + j * n + i, n - i);
    attempt_done(&a);
    return 0;
}

int smooth_fit(const double *points, const double *values, size_t count, size_t dimensions,
               double *ret_inverse, struct smooth **ret_smooth)
{
    assert(count > 0 && count <= SMOOTH_POINTS_MAX && dimensions > 0 &&
           dimensions <= SMOOTH_DIMENSIONS_MAX);
    struct smooth *s = smooth_new(count, dimensions);
    if (s == NULL)
        return -ERR_NO_MEMORY;
    choose_axes(s, points);
    memcpy(s->weights, values, count * sizeof *values);
    s->median = order_median(s->weights, count);
    double noise;
    int rc = choose_length(s, values, &noise);
    if (rc == 0)
        rc = fit_all(s, values, noise, ret_inverse);
    if (rc < 0) {
        smooth_free(s);
        return rc;
    }
    *ret_smooth = s;
    return 0;
}

double smooth_predict(const struct smooth *s, const double *point, double *ret_distance)
{
    double at[SMOOTH_DIMENSIONS_MAX], sum = s->median, nearest = INFINITY;
    standardise(s, point, at);
    double at_square = linear_dot(at, at, s->used), scale = per_square(s->length);
    for (size_t i = 0; i < s->count; i++) {
        double square = square_to(s, at, at_square, i);
        nearest = square < nearest ? square : nearest;
        sum += s->weights[i] * kernel(square, scale);
    }
    *ret_distance = per_axis(s, nearest);
    return sum;
}

double smooth_distance(const struct smooth *s, size_t i, size_t j)
{
    return per_axis(s, square_to(s, s->points + i * s->used, s->squares[i], j));
}

static double beyond(double value, double least, double most)
{
    return fmax(0, fmax(least - value, value - most));
}

double smooth_outside(const struct smooth *s, const double *point)
{
    double at[SMOOTH_DIMENSIONS_MAX], outside = 0;
    standardise(s, point, at);
    for (size_t k = 0; k < s->used; k++)
        outside = fmax(outside, beyond(at[k], s->least[k], s->most[k]));
    return outside;
}

double smooth_outside_of(const struct smooth *s, size_t point, const size_t *others,
                         size_t other_count)
{
    double outside = 0;
    for (size_t k = 0; k < s->used; k++) {
        double least = INFINITY, most = -INFINITY;
        for (size_t j = 0; j < other_count; j++) {
            double value = s->points[others[j] * s->used + k];
            least = value < least ? value : least;
            most = value > most ? value : most;
        }
        outside = fmax(outside, beyond(s->points[point * s->used + k], least, most));
    }
    return outside;
}

void smooth_leave_out(const struct smooth *s, const double *inverse, const double *values,
                      const size_t *group, size_t group_count, double *work,
                      double *ret_predictions)
{
    for (size_t i = 0; i < group_count; i++) {
        for (size_t j = 0; j <= i; j++)
            work[i * group_count + j] = inverse[group[i] * s->count + group[j]];
        ret_predictions[i] = s->weights[group[i]];
    }
    if (!linear_cholesky(work, group_count, group_count)) {
        for (size_t i = 0; i < group_count; i++)
            ret_predictions[i] = s->median;
        return;
    }
    linear_solve_lower(work, group_count, group_count, ret_predictions);
    linear_solve_lower_transposed(work, group_count, group_count, ret_predictions);
    for (size_t i = 0; i < group_count; i++)
        ret_predictions[i] = values[group[i]] - ret_predictions[i];
}

void smooth_save(const struct smooth *s, struct str *to)
{
    stored_put_u64(to, s->count);
    stored_put_u64(to, s->used);
    stored_put_double(to, s->length);
    stored_put_double(to, s->median);
    for (size_t k = 0; k < s->used; k++) {
        stored_put_u64(to, s->axes[k]);
        stored_put_double(to, s->centre[k]);
        stored_put_double(to, s->scale[k]);
    }
    for (size_t i = 0; i < s->count * s->used; i++)
        stored_put_double(to, s->points[i]);
    for (size_t i = 0; i < s->count; i++)
        stored_put_double(to, s->weights[i]);
}

struct smooth *smooth_load(struct stored_reader *r, size_t dimensions)
{
    size_t count = stored_get_size(r, SMOOTH_POINTS_MAX);
    size_t used = stored_get_size(r, dimensions);
    struct smooth *s = !r->failed && count > 0 ? smooth_new(count, dimensions) : NULL;
    if (s == NULL) {
        r->failed = true;
        return NULL;
    }
    s->used = used;
    s->length = stored_get_double(r);
    s->median = stored_get_double(r);
    for (size_t k = 0; k < used; k++) {
        s->axes[k] = stored_get_size(r, dimensions - 1);
        s->centre[k] = stored_get_double(r);
        s->scale[k] = stored_get_double(r);
    }
    for (size_t i = 0; i < count * used; i++)
        s->points[i] = stored_get_double(r);
    for (size_t i = 0; i < count; i++)
        s->weights[i] = stored_get_double(r);
    note_points(s);
    if (!r->failed && s->length > 0)
        return s;
    r->failed = true;
    smooth_free(s);
    return NULL;
}
