/*
 * For a place with covariances k to the points, the rows hold v = L⁻¹·k, one number per point. The
 * mean is v · L⁻¹·values, and the variance is the prior variance minus |v|². A new point adds a row
 * to L and to v; the other rows stay.
 */
#include "learn/gp_field.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "learn/gp_internal.h"
#include "learn/linear.h"

enum { N = GP_POINTS_MAX, D = GP_DIMENSIONS_MAX };

struct gp_field {
    size_t dimensions, places_max;
    size_t count, settled; /* places; places with computed rows */
    double *places;        /* D numbers each */
    double *rows;          /* N × places_max */
    double *means, *explained;

    /* Inputs of the computed rows: */
    size_t row_count;
    struct gp_kernel kernel;
    double points[N][D], extra_noise[N];
};

struct gp_field *gp_field_new(size_t dimensions, size_t places_max)
{
    struct gp_field *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->dimensions = dimensions;
    f->places_max = places_max;
    f->places = calloc(places_max, D * sizeof *f->places);
    f->rows = calloc(places_max, N * sizeof *f->rows);
    f->means = calloc(places_max, sizeof *f->means);
    f->explained = calloc(places_max, sizeof *f->explained);
    if (f->places && f->rows && f->means && f->explained)
        return f;
    gp_field_free(f);
    return NULL;
}

void gp_field_free(struct gp_field *f)
{
    if (!f)
        return;
    free(f->places);
    free(f->rows);
    free(f->means);
    free(f->explained);
    free(f);
}

void gp_field_add(struct gp_field *f, const double *point)
{
    assert(f->count < f->places_max);
    memcpy(f->places + D * f->count++, point, f->dimensions * sizeof *point);
}

/* Returns whether all computed rows are valid for g. */
static bool still_holds(const struct gp_field *f, const struct gp *g)
{
    size_t dimensions = f->dimensions;
    if (f->row_count > g->conditioned || f->kernel.variance != g->kernel.variance ||
        f->kernel.noise != g->kernel.noise)
        return false;
    for (size_t d = 0; d < dimensions; d++)
        if (f->kernel.lengths[d] != g->kernel.lengths[d])
            return false;
    for (size_t i = 0; i < f->row_count; i++) {
        if (f->extra_noise[i] != g->extra_noise[i])
            return false;
        for (size_t d = 0; d < dimensions; d++)
            if (f->points[i][d] != g->points[i][d])
                return false;
    }
    return true;
}

/* Computes rows [first_row, last_row) at places [first, last). */
static void fill(struct gp_field *f, const struct gp *g, size_t first_row, size_t last_row,
                 size_t first, size_t last)
{
    double inverse_lengths[D], unused;
    gp_invert_lengths(&g->kernel, f->dimensions, inverse_lengths);
    for (size_t i = first_row; i < last_row; i++) {
        double *row = f->rows + i * f->places_max, reciprocal = 1 / g->factor[i][i];
        for (size_t p = first; p < last; p++)
            row[p] = gp_covariance(&g->kernel, inverse_lengths, g->points[i], f->places + D * p,
                                   f->dimensions, &unused);
        for (size_t k = 0; k < i; k++)
            linear_add_scaled(row + first, f->rows + k * f->places_max + first, -g->factor[i][k],
                              last - first);
        for (size_t p = first; p < last; p++) {
            row[p] *= reciprocal;
            f->explained[p] += row[p] * row[p];
        }
    }
}

void gp_field_update(struct gp_field *f, const struct gp *g)
{
    assert(f->dimensions == g->dimensions);
    if (!still_holds(f, g)) {
        f->row_count = f->settled = 0;
        memset(f->explained, 0, f->count * sizeof *f->explained);
    }
    fill(f, g, f->row_count, g->conditioned, 0, f->settled);
    fill(f, g, 0, g->conditioned, f->settled, f->count);
    f->settled = f->count;
    f->row_count = g->conditioned;
    f->kernel = g->kernel;
    memcpy(f->points, g->points, g->conditioned * sizeof *f->points);
    memcpy(f->extra_noise, g->extra_noise, g->conditioned * sizeof *f->extra_noise);
    memset(f->means, 0, f->count * sizeof *f->means);
    for (size_t i = 0; i < g->conditioned; i++)
        linear_add_scaled(f->means, f->rows + i * f->places_max, g->whitened[i], f->count);
}

void gp_field_at(const struct gp_field *f, size_t place, double *ret_mean, double *ret_variance)
{
    assert(place < f->settled);
    *ret_mean = f->means[place];
    *ret_variance = fmax(0, f->kernel.variance - f->explained[place]);
}
