/*
 * Axes: which value is where, and at which values a number is written. Plain data.
 *
 * Values of a time are in seconds, of parts from 0 to 1; labels say them in the axis' unit.
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
    double low, high; /* values, low < high */
    double from_px, to_px;
    bool is_log;
    const char *unit; /* of all labels: "min", "%"; "": there is none, or each label has its own */
    size_t tick_count;
    struct axis_tick ticks[AXIS_TICKS_MAX];
};

/* From 0 to a round value that is at least `high`, with about a label in every `every_px`. Whatever
 * `high` is, also no number, it is an axis. */
void axis_init_linear(struct axis *a, enum axis_quantity quantity, double high, double from_px,
                      double to_px, double every_px);
/* The same, but ends at `high` itself: for a time that passes. */
void axis_init_until(struct axis *a, enum axis_quantity quantity, double high, double from_px,
                     double to_px, double every_px);
/* Times over orders of magnitude; from a second if `low` is less. */
void axis_init_log_time(struct axis *a, double low, double high, double from_px, double to_px,
                        double every_px);
/* Marks at these values, more than 0, the lowest first, on a logarithmic axis; those that would be
 * nearer than `every_px` to another have no label. At most AXIS_TICKS_MAX. */
void axis_init_marks(struct axis *a, const double *values, size_t count, double from_px,
                     double to_px, double every_px);
/* Clamped to the axis; where it begins for what is no number. */
double axis_at(const struct axis *a, double value);
