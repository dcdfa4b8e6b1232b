/*
 * Axes: the mapping from values to positions, and the values that get labels. Plain data.
 *
 * Times are in seconds and fractions are 0 to 1; labels use the unit of the axis.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/duration.h"

enum { AXIS_TICKS_MAX = 16 };

enum axis_quantity { AXIS_NUMBER, AXIS_PERCENT, AXIS_TIME };

struct axis_tick {
    double value;
    char label[DURATION_TEXT_MAX];
};

struct axis {
    double low, high; /* values; low < high */
    double from_px, to_px;
    bool is_log;
    /* Unit of all labels: "min", "%"; "": no unit, or each label has its own. */
    const char *unit;
    size_t tick_count;
    struct axis_tick ticks[AXIS_TICKS_MAX];
};

/* Makes an axis from 0 to a round value ≥ `high`, with a label about every `every_px`. Any `high`
 * gives a valid axis, even NaN. */
void axis_init_linear(struct axis *a, enum axis_quantity quantity, double high, double from_px,
                      double to_px, double every_px);
/* Like axis_init_linear, but ends at `high` itself, for the passage of time. */
void axis_init_until(struct axis *a, enum axis_quantity quantity, double high, double from_px,
                     double to_px, double every_px);
/* Makes an axis for times over orders of magnitude, which starts at 1 s or above. */
void axis_init_log_time(struct axis *a, double low, double high, double from_px, double to_px,
                        double every_px);
/* Makes a logarithmic axis with ticks at `values` (> 0, ascending, at most AXIS_TICKS_MAX). A tick
 * closer than `every_px` to another gets no label. */
void axis_init_marks(struct axis *a, const double *values, size_t count, double from_px,
                     double to_px, double every_px);
/* Returns the position of a value, clamped to the axis; the start of the axis for NaN. */
double axis_at(const struct axis *a, double value);
