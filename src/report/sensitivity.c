/* Results of the policies at increasing load. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/plot.h"
#include "report/report_internal.h"
#include "report/style.h"

enum { HEIGHT = 340, TOP = 46, BOTTOM = 290, PLOT_WIDTH = 300, LABEL_GAP_PX = 14 };
static const double lefts[] = {52, 538};
static const double log_ratio = 8; /* highest ÷ lowest value above which the axis is logarithmic */

struct measure {
    const char *title;
    double (*value)(const struct result_summary *s);
    enum axis_quantity quantity;
};
static const struct measure completion = {"Mean completion time", summary_completion, AXIS_TIME};
static const struct measure waiting = {"Mean waiting time", summary_waiting, AXIS_TIME};
static const struct measure late = {"Requests late", summary_late, AXIS_PERCENT};

/* Returns the position on the axis: the load, or the rate if no load is defined. */
static double position_of(const struct page *p, size_t rate)
{
    double load = page_result(p, rate, 0, 0)->load;
    return isfinite(load) && load > 0 ? load : p->report->config->rates[rate];
}

static void choose_axes(struct plot *plot, const struct page *p, const struct measure *m,
                        double left)
{
    size_t rates = p->report->config->rate_count;
    double low = INFINITY, high = 0, values[CAMPAIGN_LOADS_MAX];
    for (size_t i = 0; i < rates; i++) {
        values[i] = position_of(p, p->rates[i]);
        for (size_t line = 0; line < p->line_count; line++) {
            struct spread x = page_spread(p, p->rates[i], p->lines[line], m->value);
            low = fmin(low, x.low);
            high = fmax(high, x.high);
        }
    }
    axis_init_marks(&plot->x, values, rates, left + 8, left + PLOT_WIDTH - 8, 26);
    if (m->quantity == AXIS_TIME && low >= 1 && high > log_ratio * low)
        axis_init_log_time(&plot->y, 0.9 * low, 1.1 * high, BOTTOM, TOP, 26);
    else
        axis_init_linear(&plot->y, m->quantity, high, BOTTOM, TOP, 40);
    plot->title = m->title;
    plot->x_title = isfinite(page_result(p, p->focus, 0, 0)->load)
                        ? "load: part of the devices that would be busy unshared"
                        : "rate";
    plot->y_title = m->quantity == AXIS_PERCENT ? "requests"
                    : plot->y.is_log            ? "time, logarithmic"
                                                : "time";
}

static void draw_line(struct svg *g, const struct page *p, const struct plot *plot,
                      const struct measure *m, size_t line)
{
    size_t rates = p->report->config->rate_count, variant = p->lines[line];
    char attributes[STYLE_TEXT_MAX];
    svg_path_begin(g);
    for (size_t i = 0; i < rates; i++)
        svg_path_to(g, axis_at(&plot->x, position_of(p, p->rates[i])),
                    axis_at(&plot->y, page_spread(p, p->rates[i], variant, m->value).mean));
    style_line(line, attributes);
    svg_path_end(g, attributes);
    for (size_t i = 0; i < rates; i++) {
        struct spread x = page_spread(p, p->rates[i], variant, m->value);
        double at = axis_at(&plot->x, position_of(p, p->rates[i]));
        (void)snprintf(attributes, sizeof attributes, "stroke=\"%s\" stroke-width=\"1.2\"",
                       style_colour(line));
        if (x.high > x.low)
            svg_line(g, at, axis_at(&plot->y, x.low), at, axis_at(&plot->y, x.high), attributes);
        style_marker(g, line, at, axis_at(&plot->y, x.mean));
    }
}

/* Draws each label at the end of its line, connected by a thin line if the label had to move. */
static void draw_labels(struct svg *g, const struct page *p, const struct plot *plot,
                        const struct measure *m)
{
    size_t last = p->rates[p->report->config->rate_count - 1];
    double positions[REPORT_LINES_MAX], ends[REPORT_LINES_MAX];
    for (size_t line = 0; line < p->line_count; line++) {
        ends[line] = axis_at(&plot->y, page_spread(p, last, p->lines[line], m->value).mean);
        positions[line] = ends[line];
    }
    plot_spread(positions, p->line_count, LABEL_GAP_PX, TOP, BOTTOM);
    for (size_t line = 0; line < p->line_count; line++) {
        double x = plot->x.to_px + 8;
        svg_line(g, x, ends[line], x + 16, positions[line],
                 "stroke=\"" SVG_RULE "\" stroke-width=\"0.7\"");
        svg_text(g, x + 20, positions[line] + 4, "", page_variant_name(p, p->lines[line]));
    }
}

int section_sensitivity(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    const struct measure *const measures[] = {&completion, page_has_requests(p) ? &late : &waiting};
    struct svg g;
    page_heading(p, "sensitivity", "Sensitivity to the rate");
    if (c->rate_count < 2) {
        page_missing(p, "There was one rate only: <code>--load 0.5,1,2,4</code>, or "
                        "<code>--rate</code> with several values, compares the policies at each.");
        return 0;
    }
    page_figure_begin(p);
    svg_begin(&g, p->out, "figure-sensitivity", PAGE_WIDTH_PX, HEIGHT, "Sensitivity to the rate",
              "Two plots over the load, a line for each policy.");
    for (size_t i = 0; i < 2; i++) {
        struct plot plot = {0};
        choose_axes(&plot, p, measures[i], lefts[i]);
        plot_frame(&g, &plot);
        for (size_t line = 0; line < p->line_count; line++)
            draw_line(&g, p, &plot, measures[i], line);
        draw_labels(&g, p, &plot, measures[i]);
    }
    svg_end(&g);
    page_figure_caption(p);
    str_append(p->out, "Results for the same tasks when they arrive faster. Lower is better.");
    if (c->seed_count > 1)
        str_printf(p->out,
                   " Means over %zu seeds; vertical lines reach from the lowest to the "
                   "highest.",
                   c->seed_count);
    page_lines_note(p);
    page_figure_end(p);
    return 0;
}
