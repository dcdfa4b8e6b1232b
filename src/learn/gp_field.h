/*
 * The posterior of a Gaussian process at a fixed set of places, for a search. After a new
 * measurement the field computes only the resulting change. Results equal those of gp_predict() up
 * to rounding.
 */
#pragma once
#include <stddef.h>

#include "learn/gp.h"

struct gp_field;

/* Returns NULL if out of memory. */
struct gp_field *gp_field_new(size_t dimensions, size_t places_max);
void gp_field_free(struct gp_field *f);
/* Adds a place; at most places_max. The next gp_field_update() computes its posterior. */
void gp_field_add(struct gp_field *f, const double *point);
/* Takes over the posterior of g, which must have the field's dimensions. Cheap if the kernel and
 * the first points of g are those of the last update, even if their values changed. */
void gp_field_update(struct gp_field *f, const struct gp *g);
/* Returns mean, and variance without noise, at the place with index `place` in order of
 * addition. */
void gp_field_at(const struct gp_field *f, size_t place, double *ret_mean, double *ret_variance);
