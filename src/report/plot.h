/* Parts of a plot: a frame with axes, and labels that do not overlap. */
#pragma once
#include "report/axis.h"
#include "report/svg.h"

struct plot {
    struct axis x, y; /* y.from_px is the bottom */
    const char *title;
    const char *x_title, *y_title; /* NULL: no title, and for x no tick labels */
};

/* Draws the grid, the axes with labels and units, and the titles above and below the plot. */
void plot_frame(struct svg *g, const struct plot *p);

/* Moves positions as little as possible, until all are at least `gap` apart and between `low` and
 * `high`, if all positions fit. `count` is at most PLOT_LABELS_MAX. */
enum { PLOT_LABELS_MAX = 64 };
void plot_spread(double *positions, size_t count, double gap, double low, double high);
