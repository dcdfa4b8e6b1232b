#include "report/axis.h"

#include <math.h>
#include <stdio.h>

static const double value_max = 1e15;

static double sane(double value, double least)
{
    return isfinite(value) ? fmin(fmax(value, least), value_max) : least;
}

double axis_at(const struct axis *a, double value)
{
    if (isnan(value))
        return a->from_px;
    value = fmin(fmax(value, a->low), a->high);
    double part = a->is_log ? log(value / a->low) / log(a->high / a->low)
                            : (value - a->low) / (a->high - a->low);
    return a->from_px + part * (a->to_px - a->from_px);
}

/* Returns the smallest step of 1, 2, 5, 10, … that is at least `least`. */
static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));
    for (size_t i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};
        if (steps[i] * power >= least * (1 - 1e-9))
            return steps[i] * power;
    }
    return 10 * power;
}

/* Returns a round step in this unit, as clocks and calendars are divided. */
static double round_time_step(double least, const struct duration_unit *unit)
{
    static const double sixties[] = {1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600};
    static const double hours[] = {1, 2, 3, 4, 6, 12, 24, 48, 72, 168};
    bool is_sixty = unit->seconds < 3600, is_hour = unit->seconds == 3600;
    const double *steps = is_sixty ? sixties : hours;
    size_t count = is_sixty  ? sizeof sixties / sizeof *sixties
                   : is_hour ? sizeof hours / sizeof *hours
                             : 0;
    for (size_t i = 0; least > 0.5 && i < count; i++)
        if (steps[i] >= least * (1 - 1e-9))
            return steps[i];
    return round_step(least);
}

static void init_ticks(struct axis *a, enum axis_quantity quantity, double high, double every_px,
                       bool ends_round)
{
    const struct duration_unit *unit = duration_unit_for(high);
    double in = quantity == AXIS_TIME ? unit->seconds : quantity == AXIS_PERCENT ? 0.01 : 1;
    double wanted = fmin(fmax(fabs(a->to_px - a->from_px) / every_px, 1), AXIS_TICKS_MAX - 2);
    double least = high / in / wanted;
    double step = quantity == AXIS_TIME ? round_time_step(least, unit) : round_step(least);
    int decimals = step < 1 ? (int)fmin(ceil(-log10(step) - 1e-9), 9) : 0;
    double last = high / in / step;
    size_t steps = (size_t)(ends_round ? ceil(last - 1e-9) : floor(last + 1e-9));
    a->unit = quantity == AXIS_TIME ? unit->name : quantity == AXIS_PERCENT ? "%" : "";
    a->high = ends_round ? (double)steps * step * in : high;
    for (size_t i = 0; i <= steps && i < AXIS_TICKS_MAX; i++) {
        struct axis_tick *tick = &a->ticks[a->tick_count++];
        tick->value = (double)i * step * in;
        (void)snprintf(tick->label, sizeof tick->label, "%.*f", decimals, (double)i * step);
    }
}

void axis_init_linear(struct axis *a, enum axis_quantity quantity, double high, double from_px,
                      double to_px, double every_px)
{
    *a = (struct axis){.from_px = from_px, .to_px = to_px};
    init_ticks(a, quantity, sane(high, 1e-6), every_px, true);
}

void axis_init_until(struct axis *a, enum axis_quantity quantity, double high, double from_px,
                     double to_px, double every_px)
{
    *a = (struct axis){.from_px = from_px, .to_px = to_px};
    init_ticks(a, quantity, sane(high, 1e-6), every_px, false);
}

/* Adds a tick, with a label unless another label is too close. */
static void offer_tick(struct axis *a, double seconds, double every_px)
{
    struct axis_tick *tick = &a->ticks[a->tick_count];
    if (seconds < a->low || seconds > a->high || a->tick_count == AXIS_TICKS_MAX)
        return;
    for (size_t i = 0; i < a->tick_count; i++)
        if (fabs(axis_at(a, seconds) - axis_at(a, a->ticks[i].value)) < every_px)
            return;
    const struct duration_unit *unit = duration_unit_for(3 * seconds);
    tick->value = seconds;
    (void)snprintf(tick->label, sizeof tick->label, "%.0f %s", seconds / unit->seconds, unit->name);
    a->tick_count++;
}

void axis_init_log_time(struct axis *a, double low, double high, double from_px, double to_px,
                        double every_px)
{
    static const double minute = 60, hour = 3600, day = 86400;
    /* Marks in order of preference; each one keeps later ones at a distance. */
    const double marks[] = {1,           minute,     hour,        day,         10,
                            10 * minute, 10 * hour,  10 * day,    100 * day,   1e3 * day,
                            1e4 * day,   1e5 * day,  30,          30 * minute, 3 * hour,
                            3 * minute,  3,          3 * day,     30 * day,    300 * day,
                            2 * minute,  5 * minute, 20 * minute, 2 * hour,    5 * hour,
                            2 * day,     5 * day,    5,           20};
    low = sane(low, 1);
    *a = (struct axis){.low = low, .high = fmax(sane(high, 1), 10 * low), .is_log = true};
    a->from_px = from_px;
    a->to_px = to_px;
    a->unit = "";
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        offer_tick(a, marks[i], every_px);
}

void axis_init_marks(struct axis *a, const double *values, size_t count, double from_px,
                     double to_px, double every_px)
{
    double low = INFINITY, high = 0;
    *a = (struct axis){.from_px = from_px, .to_px = to_px, .is_log = true, .unit = ""};
    for (size_t i = 0; i < count && a->tick_count < AXIS_TICKS_MAX; i++) {
        struct axis_tick *tick = &a->ticks[a->tick_count++];
        tick->value = sane(values[i], 1e-9);
        low = fmin(low, tick->value);
        high = fmax(high, tick->value);
    }
    a->low = isfinite(low) ? low : 1;
    a->high = fmax(high, a->low * 1.001);
    double last_px = -INFINITY;
    for (size_t i = 0; i < a->tick_count; i++) {
        double at_px = axis_at(a, a->ticks[i].value);
        if (fabs(at_px - last_px) < every_px)
            continue;
        (void)snprintf(a->ticks[i].label, sizeof a->ticks[i].label, "%.3g", a->ticks[i].value);
        last_px = at_px;
    }
}
