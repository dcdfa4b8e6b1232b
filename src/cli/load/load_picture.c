/*
 * At the top the latency, on one axis for two plots: over time at the left (median, p99, and bands
 * of the other requests), over the percentile at the right. Below, the rates over time, and a table
 * of percentiles.
 */
#include "cli/load/load_picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/load/load_report.h"
#include "report/plot.h"
#include "report/style.h"

enum {
    WIDTH = 960,
    HEIGHT = 590,
    LEFT = 64,
    TIME_RIGHT = 580,
    TAIL_LEFT = 650,
    RIGHT = 930,
    TOP = 112,
    MIDDLE = 352,
    RATE_TOP = 452,
    BOTTOM = 536,
    TEXT_MAX = 256,
    POINTS_MAX = TALLY_SLICES_MAX,
    POINT_REQUESTS = 30, /* wanted for each point over time */
    POINTS_LEAST = 12,   /* if the run has so many slices */
};
static const double log_ratio = 20; /* of the p99.9 to the median: the axis becomes logarithmic */

/* A point over time: one slice, or several slices merged. */
struct point {
    double from_s, to_s;
    struct tally_slice slice;
};

struct picture {
    struct svg g;
    const struct load_plan *plan;
    struct axis latency; /* in ms */
    struct axis time, rate, tail;
    size_t points, group; /* slices of a point */
};

static double ms_of(int64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- axes ---- */

static void log_axis(struct axis *a, double low, double high, double from_px, double to_px)
{
    double values[AXIS_TICKS_MAX];
    static const double steps[] = {1, 2, 5};
    size_t count = 0, each = high / low > 1e4 ? 1 : 3;
    double power = pow(10, floor(log10(low)));
    for (; count < AXIS_TICKS_MAX && (count == 0 || values[count - 1] < high); power *= 10)
        for (size_t i = 0; i < each && count < AXIS_TICKS_MAX; i++) {
            double next = steps[(i + 1) % each] * (i + 1 < each ? 1 : 10) * power;
            if (next > low && (count == 0 || values[count - 1] < high))
                values[count++] = steps[i] * power;
        }
    axis_init_marks(a, values, count, from_px, to_px, 14);
}

static void choose_axes(struct picture *p)
{
    const struct tally *t = &p->plan->tally;
    const struct histogram *h = &t->latency;
    double median = fmax(ms_of(histogram_quantile(h, 0.5)), 1e-3), high = ms_of(h->most_ns);
    for (size_t i = 0; i < t->slo_count; i++)
        high = fmax(high, fmin(1.1 * ms_of(t->slos[i].limit_ns), 4 * high));
    if (ms_of(histogram_quantile(h, 0.999)) > log_ratio * median)
        log_axis(&p->latency, fmax(ms_of(h->least_ns), 1e-3), high, MIDDLE, TOP);
    else
        axis_init_linear(&p->latency, AXIS_NUMBER, high, MIDDLE, TOP, 42);
    p->latency.unit = "ms";
    double end_s = (double)(int64_t)tally_slice_count(t) * (double)t->slice_ns / 1e9;
    axis_init_until(&p->time, AXIS_TIME, fmax(end_s, 1e-3), LEFT, TIME_RIGHT, 64);
}

/* The axis of percentiles: the part of the requests above, on a logarithmic scale. */
static void draw_tail_axis(struct picture *p)
{
    static const double parts[] = {0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001};
    uint64_t count = p->plan->tally.latency.count;
    size_t last = 2;
    while (last + 1 < sizeof parts / sizeof *parts && parts[last] * (double)count > 1)
        last++;
    struct axis *a = &p->tail;
    *a = (struct axis){.low = 1, .high = 1 / parts[last], .is_log = true, .unit = ""};
    a->from_px = TAIL_LEFT;
    a->to_px = RIGHT;
    a->tick_count = last + 2;
    a->ticks[0] = (struct axis_tick){1, "0"};
    for (size_t i = 0; i <= last; i++) {
        a->ticks[i + 1].value = 1 / parts[i];
        (void)snprintf(a->ticks[i + 1].label, sizeof a->ticks[i + 1].label, "%g",
                       100 * (1 - parts[i]));
    }
    plot_frame(&p->g, &(struct plot){.x = *a,
                                     .y = p->latency,
                                     .title = "Latency by percentile",
                                     .x_title = "percentile of the answered requests",
                                     .y_title = "latency"});
}

/* ---- latency over time ---- */

static void choose_points(struct picture *p)
{
    const struct tally *t = &p->plan->tally;
    size_t slices = tally_slice_count(t);
    p->group = 1;
    while ((double)t->due * (double)p->group < (double)POINT_REQUESTS * (double)slices &&
           slices / (p->group + 1) >= POINTS_LEAST)
        p->group++;
    p->points = slices / p->group; /* the last, incomplete point is merged with the one before */
    if (p->points == 0 && slices > 0)
        p->points = 1;
}

static void point_at(const struct picture *p, size_t i, struct point *ret)
{
    const struct tally *t = &p->plan->tally;
    size_t from = i * p->group, to = i + 1 == p->points ? tally_slice_count(t) : from + p->group;
    *ret = (struct point){.from_s = (double)from * (double)t->slice_ns / 1e9,
                          .to_s = (double)to * (double)t->slice_ns / 1e9};
    for (size_t s = from; s < to; s++) {
        ret->slice.due += t->slices[s].due;
        ret->slice.failed += t->slices[s].failed;
        ret->slice.answered_in += t->slices[s].answered_in;
        histogram_merge(&ret->slice.latency, &t->slices[s].latency);
    }
}

/* Values of one point that are drawn. */
enum { LEAST, P10, P50, P90, P99, MOST, VALUES };

struct course {
    double at_px[POINTS_MAX];
    double ms[POINTS_MAX][VALUES];
    bool has[POINTS_MAX]; /* an answered request was due at the point */
    double asked[POINTS_MAX], answered[POINTS_MAX], failed[POINTS_MAX]; /* per second */
    double from_s[POINTS_MAX], to_s[POINTS_MAX];
};

static void take_course(const struct picture *p, struct course *c)
{
    for (size_t i = 0; i < p->points; i++) {
        static const double parts[VALUES] = {0, 0.1, 0.5, 0.9, 0.99, 1};
        struct point point;
        point_at(p, i, &point);
        double length_s = point.to_s - point.from_s;
        c->from_s[i] = point.from_s;
        c->to_s[i] = point.to_s;
        c->at_px[i] = axis_at(&p->time, (point.from_s + point.to_s) / 2);
        c->has[i] = point.slice.latency.count > 0;
        for (size_t v = 0; v < VALUES; v++)
            c->ms[i][v] = ms_of(histogram_quantile(&point.slice.latency, parts[v]));
        c->asked[i] = (double)point.slice.due / length_s;
        c->answered[i] = (double)point.slice.answered_in / length_s;
        c->failed[i] = (double)point.slice.failed / length_s;
    }
}

/* Draws the area between two values, over each run of points that have values. */
static void draw_band(struct picture *p, const struct course *c, size_t low, size_t high,
                      const char *attributes)
{
    for (size_t from = 0, to; from < p->points; from = to + 1) {
        for (to = from; to < p->points && c->has[to]; to++)
            ;
        if (to == from)
            continue;
        svg_path_begin(&p->g);
        for (size_t i = from; i < to; i++)
            svg_path_to(&p->g, c->at_px[i], axis_at(&p->latency, c->ms[i][high]));
        for (size_t i = to; i-- > from;)
            svg_path_to(&p->g, c->at_px[i], axis_at(&p->latency, c->ms[i][low]));
        svg_path_close(&p->g);
        svg_path_end(&p->g, attributes);
    }
}

static void draw_value(struct picture *p, const struct course *c, size_t value, size_t style)
{
    char attributes[STYLE_TEXT_MAX];
    style_line(style, attributes);
    for (size_t from = 0, to; from < p->points; from = to + 1) {
        for (to = from; to < p->points && c->has[to]; to++)
            ;
        if (to == from)
            continue;
        svg_path_begin(&p->g);
        for (size_t i = from; i < to; i++)
            svg_path_to(&p->g, c->at_px[i], axis_at(&p->latency, c->ms[i][value]));
        svg_path_end(&p->g, attributes);
    }
}

static const char band_wide[] = "fill=\"#0072b2\" fill-opacity=\"0.10\"";
static const char band_narrow[] = "fill=\"#0072b2\" fill-opacity=\"0.22\"";

static void draw_legend(struct picture *p)
{
    struct svg *g = &p->g;
    char attributes[STYLE_TEXT_MAX];
    static const char *const names[] = {"median", "p99"};
    double x = TIME_RIGHT - 300, y = TOP - 29;
    for (size_t i = 0; i < 2; i++) {
        style_line(i, attributes);
        svg_line(g, x, y, x + STYLE_KEY_PX, y, attributes);
        svg_text(g, x + STYLE_KEY_PX + 5, y + 4, "font-size=\"11\"", names[i]);
        x += STYLE_KEY_PX + 5 + svg_text_width(names[i], SVG_SMALL_PX) + 12;
    }
    svg_rect(g, x, y - 6, 16, 12, band_wide);
    svg_rect(g, x, y - 6, 16, 12, band_narrow);
    svg_text(g, x + 21, y + 4, "font-size=\"11\"", "p10 to p90");
    svg_rect(g, x + 90, y - 6, 16, 12, band_wide);
    svg_text(g, x + 111, y + 4, "font-size=\"11\"", "all");
}

static void draw_slos(struct picture *p, double from_px, double to_px)
{
    const struct tally *t = &p->plan->tally;
    for (size_t i = 0; i < t->slo_count; i++) {
        double ms = ms_of(t->slos[i].limit_ns);
        if (ms > p->latency.high)
            continue;
        double y = axis_at(&p->latency, ms);
        svg_line(&p->g, from_px, y, to_px, y,
                 "stroke=\"#b2182b\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"");
    }
}

static void draw_time(struct picture *p, const struct course *c)
{
    plot_frame(&p->g, &(struct plot){.x = p->time,
                                     .y = p->latency,
                                     .title = "Latency over time",
                                     .x_title = "time at which the request was due",
                                     .y_title = "latency"});
    draw_band(p, c, LEAST, MOST, band_wide);
    draw_band(p, c, P10, P90, band_narrow);
    draw_value(p, c, P99, 1);
    draw_value(p, c, P50, 0);
    draw_slos(p, LEFT, TIME_RIGHT);
    draw_legend(p);
}

/* ---- the distribution ---- */

static void draw_distribution(struct picture *p, const struct histogram *h, const char *attributes)
{
    enum { STEPS = 240 };
    if (h->count == 0)
        return;
    svg_path_begin(&p->g);
    for (int i = 0; i <= STEPS; i++) {
        double above = pow(p->tail.high, -(double)i / STEPS); /* 1 down to the end of the axis */
        double ms = ms_of(histogram_quantile(h, 1 - above));
        svg_path_to(&p->g, axis_at(&p->tail, 1 / above), axis_at(&p->latency, ms));
        if (above * (double)h->count < 1)
            break; /* from here on, every percentile is the greatest latency */
    }
    svg_path_end(&p->g, attributes);
}

static void draw_tail(struct picture *p)
{
    const struct tally *t = &p->plan->tally;
    char attributes[STYLE_TEXT_MAX], text[TEXT_MAX], limit[LOAD_TIME_TEXT_MAX];
    draw_tail_axis(p);
    if (p->plan->config.is_stream) {
        style_line(2, attributes);
        draw_distribution(p, &t->first, attributes);
        svg_text(&p->g, RIGHT, TOP - 10, "text-anchor=\"end\" font-size=\"11\" fill=\"#009e73\"",
                 "dotted: first chunk");
    }
    style_line(0, attributes);
    draw_distribution(p, &t->latency, attributes);
    draw_slos(p, TAIL_LEFT, RIGHT);
    for (size_t i = 0; i < t->slo_count; i++) {
        const struct tally_slo *slo = &t->slos[i];
        if (ms_of(slo->limit_ns) > p->latency.high)
            continue;
        (void)snprintf(text, sizeof text, "p%g within %s: %s", slo->percentile,
                       load_time_text(slo->limit_ns, limit),
                       tally_slo_is_met(t, slo) ? "met" : "missed");
        svg_text(&p->g, TAIL_LEFT + 6, axis_at(&p->latency, ms_of(slo->limit_ns)) - 5,
                 "font-size=\"11\" fill=\"#b2182b\"", text);
    }
}

static void draw_table(struct picture *p)
{
    static const double parts[] = {0.5, 0.9, 0.95, 0.99, 0.999, 1};
    static const char *const names[] = {"p50", "p90", "p95", "p99", "p99.9", "max"};
    const struct tally *t = &p->plan->tally;
    char text[LOAD_TIME_TEXT_MAX];
    static const double latency_px = RIGHT - 90, lag_px = RIGHT;
    double y = RATE_TOP - 30;
    const char *head = "text-anchor=\"end\" font-size=\"11\" fill=\"" SVG_FAINT "\"";
    svg_text(&p->g, latency_px, y, head, "latency");
    svg_text(&p->g, lag_px, y, head, "generator's lag");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        y += 19;
        svg_line(&p->g, TAIL_LEFT, y - 14, RIGHT, y - 14, "stroke=\"" SVG_GRID "\"");
        svg_text(&p->g, TAIL_LEFT, y, "", names[i]);
        svg_text(&p->g, latency_px, y, "text-anchor=\"end\" font-weight=\"bold\"",
                 t->latency.count ? load_time_text(histogram_quantile(&t->latency, parts[i]), text)
                                  : "-");
        svg_text(&p->g, lag_px, y, "text-anchor=\"end\" fill=\"" SVG_FAINT "\"",
                 load_time_text(histogram_quantile(&t->lag, parts[i]), text));
    }
}

/* ---- rates ---- */

static void draw_steps(struct picture *p, const struct course *c, const double *values, bool area,
                       const char *attributes)
{
    if (p->points == 0)
        return;
    svg_path_begin(&p->g);
    if (area)
        svg_path_to(&p->g, axis_at(&p->time, c->from_s[0]), axis_at(&p->rate, 0));
    for (size_t i = 0; i < p->points; i++) {
        svg_path_to(&p->g, axis_at(&p->time, c->from_s[i]), axis_at(&p->rate, values[i]));
        svg_path_to(&p->g, axis_at(&p->time, c->to_s[i]), axis_at(&p->rate, values[i]));
    }
    if (area) {
        svg_path_to(&p->g, axis_at(&p->time, c->to_s[p->points - 1]), axis_at(&p->rate, 0));
        svg_path_close(&p->g);
    }
    svg_path_end(&p->g, attributes);
}

static void draw_rates(struct picture *p, const struct course *c)
{
    double high = 0;
    for (size_t i = 0; i < p->points; i++)
        high = fmax(high, fmax(c->asked[i], c->answered[i]));
    axis_init_linear(&p->rate, AXIS_NUMBER, high, BOTTOM, RATE_TOP, 40);
    plot_frame(&p->g, &(struct plot){.x = p->time,
                                     .y = p->rate,
                                     .title = "Requests per second",
                                     .x_title = "time",
                                     .y_title = "line: asked; blue: answered; red: failed"});
    draw_steps(p, c, c->answered, true, "fill=\"#56b4e9\" fill-opacity=\"0.6\"");
    draw_steps(p, c, c->failed, true, "fill=\"#b2182b\" fill-opacity=\"0.8\"");
    draw_steps(p, c, c->asked, false, "fill=\"none\" stroke=\"" SVG_INK "\" stroke-width=\"1.1\"");
}

void load_draw_picture(const struct load_plan *plan, struct str *out)
{
    struct picture p = {.plan = plan};
    struct course course;
    const struct tally *t = &plan->tally;
    char text[TEXT_MAX];
    choose_axes(&p);
    choose_points(&p);
    take_course(&p, &course);
    (void)snprintf(text, sizeof text,
                   "%.1f/s asked (%.60s), %.1f/s answered; %llu requests due, %llu answered, %llu "
                   "failed",
                   (double)t->due / load_measured_s(plan), plan->arrivals_text,
                   load_answered_per_s(plan), (unsigned long long)t->due,
                   (unsigned long long)t->answered, (unsigned long long)tally_failures(t));
    svg_begin(&p.g, out, "load", WIDTH, HEIGHT, "Latency under load", text);
    svg_text_within(&p.g, LEFT, 28, "font-size=\"17\" font-weight=\"bold\"", plan->url, 560);
    svg_text(&p.g, LEFT, 48, "fill=\"" SVG_FAINT "\"", text);
    draw_time(&p, &course);
    draw_tail(&p);
    draw_rates(&p, &course);
    draw_table(&p);
    svg_end(&p.g);
}
