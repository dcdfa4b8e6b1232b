/* Distributions of completion and waiting times: one figure per rate, with two plots. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/plot.h"
#include "report/report_internal.h"
#include "report/style.h"

enum {
    HEIGHT = 330,
    PLOT_TOP = 46,
    PLOT_BOTTOM = 284,
    PLOT_WIDTH = 325,
    LEGEND_LINE = 20,
    LEGEND_NAME_PX = 84,
    LEGEND_MARKS = 4, /* markers on a line, which distinguish it from others */
};
static const double lefts[] = {46, 432};
static const double legend_left = 786;
/* Ratio of the 99th to the 5th percentile above which the axis is logarithmic. */
static const double log_ratio = 40;

enum which { COMPLETION, WAITING };

/* Times of one policy at one rate, over all seeds. */
struct sample {
    size_t line;     /* index into page.lines */
    size_t count;    /* tasks that ended */
    size_t of_count; /* all tasks */
    double *sorted;  /* seconds; owned */
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int take_sample(const struct page *p, size_t rate, size_t line, enum which which,
                       struct sample *ret)
{
    struct sample s = {.line = line};
    size_t most = 0, variant = p->lines[line];
    for (size_t seed = 0; seed < p->report->config->seed_count; seed++)
        most += page_result(p, rate, seed, variant)->workload_count;
    s.sorted = calloc(most + 1, sizeof *s.sorted);
    if (!s.sorted)
        return -ERR_NO_MEMORY;
    for (size_t seed = 0; seed < p->report->config->seed_count; seed++) {
        const struct result *r = page_result(p, rate, seed, variant);
        for (size_t i = 0; i < r->workload_count; i++) {
            const struct result_workload *w = &r->workloads[i];
            double value = which == WAITING ? w->wait_s : w->end_s - w->submit_s;
            s.of_count += w->kind == WORKLOAD_TASK;
            if (w->kind == WORKLOAD_TASK && w->state == WORKLOAD_SUCCEEDED && isfinite(value))
                s.sorted[s.count++] = value;
        }
    }
    qsort(s.sorted, s.count, sizeof *s.sorted, compare);
    *ret = s;
    return 0;
}

static double quantile(const struct sample *s, double part)
{
    if (s->count == 0)
        return 0;
    size_t rank = (size_t)ceil(part * (double)s->count);
    return s->sorted[rank > 0 ? rank - 1 : 0];
}

static void choose_axes(struct plot *plot, const struct sample *samples, size_t count,
                        enum which which)
{
    double p01 = INFINITY, p05 = INFINITY, p99 = 0;
    for (size_t i = 0; i < count; i++) {
        if (samples[i].count == 0)
            continue;
        p01 = fmin(p01, quantile(&samples[i], 0.01));
        p05 = fmin(p05, quantile(&samples[i], 0.05));
        p99 = fmax(p99, quantile(&samples[i], 0.99));
    }
    double left = lefts[which];
    if (isfinite(p05) && p99 > log_ratio * fmax(p05, 1))
        axis_init_log_time(&plot->x, 0.8 * p01, p99, left, left + PLOT_WIDTH, 46);
    else
        axis_init_linear(&plot->x, AXIS_TIME, p99, left, left + PLOT_WIDTH, 46);
    axis_init_linear(&plot->y, AXIS_PERCENT, 1, PLOT_BOTTOM, PLOT_TOP, 42);
    plot->title = which == COMPLETION ? "Completion time" : "Waiting time";
    plot->x_title = which == COMPLETION ? "from submission to end" : "not running, until the end";
    plot->y_title = "tasks";
}

/* Draws a step function through the quantiles: the time of a fraction `y` of all tasks is at most
 * x. */
static void draw_sample(struct svg *g, const struct plot *plot, const struct sample *s)
{
    char attributes[STYLE_TEXT_MAX];
    size_t steps = s->count < REPORT_QUANTILES_MAX ? s->count : REPORT_QUANTILES_MAX;
    double ended = (double)s->count / (double)(s->of_count > 0 ? s->of_count : 1);
    if (s->count == 0)
        return;
    svg_path_begin(g);
    svg_path_to(g, axis_at(&plot->x, s->sorted[0]), axis_at(&plot->y, 0));
    for (size_t i = 1; i <= steps; i++) {
        double part = (double)i / (double)steps, value = quantile(s, part);
        if (value > plot->x.high)
            break;
        svg_path_to(g, axis_at(&plot->x, value), axis_at(&plot->y, part * ended));
    }
    style_line(s->line, attributes);
    svg_path_end(g, attributes);
    for (size_t i = 0; i < LEGEND_MARKS; i++) {
        /* Put markers of each policy at different heights, visible where lines coincide. */
        double part = ((double)i + 0.2 + 0.6 * (double)(s->line % 5) / 4) / LEGEND_MARKS;
        double value = quantile(s, part);
        bool is_clear = axis_at(&plot->x, value) > axis_at(&plot->x, s->sorted[0]) + 1;
        if (value <= plot->x.high && is_clear)
            style_marker(g, s->line, axis_at(&plot->x, value), axis_at(&plot->y, part * ended));
    }
}

/* Draws the legend in order of the ends, as the lines are from left to right. */
static void draw_legend(struct svg *g, const struct page *p, const struct sample *samples)
{
    size_t order[REPORT_LINES_MAX];
    for (size_t i = 0; i < p->line_count; i++) {
        size_t at = i;
        for (; at > 0 && quantile(&samples[order[at - 1]], 0.5) > quantile(&samples[i], 0.5); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    svg_text(g, legend_left, PLOT_TOP - 28, "fill=\"" SVG_FAINT "\" font-size=\"11\"",
             "median completion");
    for (size_t i = 0; i < p->line_count; i++) {
        const struct sample *s = &samples[order[i]];
        double y = PLOT_TOP - 8 + (double)i * LEGEND_LINE;
        char time[DURATION_TEXT_MAX];
        duration_text(quantile(s, 0.5), time);
        style_key(g, s->line, legend_left, y);
        svg_text_within(g, legend_left + STYLE_KEY_PX + 7, y + 4, "",
                        page_variant_name(p, p->lines[s->line]), LEGEND_NAME_PX);
        svg_text(g, PAGE_WIDTH_PX - 4, y + 4,
                 "text-anchor=\"end\" font-size=\"11\" fill=\"" SVG_FAINT "\"", time);
    }
}

static void write_caption(struct page *p, size_t rate)
{
    char rate_text[PAGE_TEXT_MAX];
    page_rate_text(p, rate, rate_text);
    page_figure_caption(p);
    str_printf(
        p->out,
        "Part of all tasks whose completion and waiting time is at most so long, at %s%s. Further "
        "left is better. Tasks that did not end count as never: their policy&#8217;s line ends "
        "below "
        "100&#8239;%%. The axis ends where 99&#8239;%% of the tasks of every policy have ended.",
        rate_text, p->report->config->seed_count > 1 ? ", over the tasks of all seeds" : "");
    page_lines_note(p);
    page_figure_end(p);
}

static int write_figure(struct page *p, size_t rate, size_t number)
{
    struct sample samples[2][REPORT_LINES_MAX] = {0};
    struct svg g;
    char id[PAGE_TEXT_MAX], rate_text[PAGE_TEXT_MAX], title[2 * PAGE_TEXT_MAX];
    int r = 0;
    for (enum which which = COMPLETION; which <= WAITING; which++)
        for (size_t i = 0; r == 0 && i < p->line_count; i++)
            r = take_sample(p, rate, i, which, &samples[which][i]);
    if (r == 0) {
        page_rate_text(p, rate, rate_text);
        (void)snprintf(id, sizeof id, "figure-distributions-%zu", number);
        (void)snprintf(title, sizeof title, "Completion and waiting times at %s", rate_text);
        page_figure_begin(p);
        svg_begin(
            &g, p->out, id, PAGE_WIDTH_PX, HEIGHT, title,
            "Two cumulative distributions, a line for each policy: the part of all tasks over "
            "completion time, and over waiting time.");
        for (enum which which = COMPLETION; which <= WAITING; which++) {
            struct plot plot = {0};
            choose_axes(&plot, samples[which], p->line_count, which);
            plot_frame(&g, &plot);
            for (size_t i = 0; i < p->line_count; i++)
                draw_sample(&g, &plot, &samples[which][i]);
        }
        draw_legend(&g, p, samples[COMPLETION]);
        svg_end(&g);
        write_caption(p, rate);
    }
    for (size_t i = 0; i < p->line_count; i++) {
        free(samples[COMPLETION][i].sorted);
        free(samples[WAITING][i].sorted);
    }
    return r;
}

int section_distributions(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    size_t shown = c->rate_count < REPORT_RATES_MAX ? c->rate_count : REPORT_RATES_MAX;
    int r = 0;
    page_heading(p, "distributions", "Completion and waiting times");
    if (shown < c->rate_count)
        str_printf(p->out, "<p>Of %zu rates, the %zu highest are drawn.</p>\n", c->rate_count,
                   shown);
    for (size_t i = 0; r == 0 && i < shown; i++)
        r = write_figure(p, p->rates[c->rate_count - shown + i], i + 1);
    return r;
}
