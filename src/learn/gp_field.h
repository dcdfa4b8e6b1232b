/*
 * The posterior of a Gaussian process at places that stay, as a search has them: after one more
 * measurement only what that one changes is computed. The same numbers as gp_predict() gives,
 * but for rounding.
 */
#pragma once
#include <stddef.h>

#include "learn/gp.h"

struct gp_field;

/* NULL when memory is out. */
struct gp_field *gp_field_new(size_t dimensions, size_t places_max);
void gp_field_free(struct gp_field *f);
/* One place more, up to places_max. Its posterior is there after the next gp_field_update(). */
void gp_field_add(struct gp_field *f, const double *point);
/* Takes over the posterior of g, which has the field's dimensions. Cheap when its kernel and first
 * points are those of the last time; their values may be others. */
void gp_field_update(struct gp_field *f, const struct gp *g);
/* Mean, and variance without noise, at the place that was added as number `place`. */
void gp_field_at(const struct gp_field *f, size_t place, double *ret_mean, double *ret_variance);
