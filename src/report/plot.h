/* What plots are made of: a frame with axes, and labels that do not cover each other. */
#pragma once
#include "report/axis.h"
#include "report/svg.h"

struct plot {
    struct axis x, y; /* y.from_px is the bottom */
    const char *title;
    const char *x_title, *y_title; /* NULL: none, and for x no labels at its ticks either */
};

/* The grid, the axes with their labels and units, and the titles: below and above what is
 * drawn into it. */
void plot_frame(struct svg *g, const struct plot *p);

/* Moves positions, as little as they can be, until none is nearer to another than `gap` and all are
 * in between `low` and `high` if there is room. `count` at most PLOT_LABELS_MAX. */
enum { PLOT_LABELS_MAX = 64 };
void plot_spread(double *positions, size_t count, double gap, double low, double high);
