/* Courses over time: one strip per policy on a common time axis, with the utilisation of the
 * devices and the fraction of late requests. */
#include <math.h>
#include <stdio.h>

#include "report/markup.h"
#include "report/plot.h"
#include "report/report_internal.h"
#include "report/style.h"

enum {
    STRIP_HEIGHT = 62, /* of the plot */
    STRIP_STEP = 98,   /* distance of two strips, including the policy's name */
    TOP = 36,          /* legend */
    BELOW = 44,        /* axis */
    GAP_PX = 52,       /* between two columns, with the axis labels of the right column */
    LEFT_PX = 46,
};

#define FACE_ATTRIBUTES "fill=\"#56b4e9\" fill-opacity=\"0.35\""
#define FACE_LINE       "fill=\"none\" stroke=\"#0072b2\" stroke-width=\"1.4\""
#define DASHED_LINE                                                                                \
    "fill=\"none\" stroke=\"#d55e00\" stroke-width=\"1.6\" stroke-dasharray=\"5 2.5\""

/* A mean of a course over one or several of its intervals. */
struct interval {
    double from_s, to_s;
    struct result_point mean; /* for requests and late_requests, sums */
};

struct course {
    size_t count;
    struct interval intervals[REPORT_INTERVALS_MAX];
};

/* Returns the end of the last interval. All intervals are as long as the first, except the last,
 * which the end of the run may cut short. */
static double end_of(const struct result *r)
{
    size_t n = r->point_count;
    if (n == 0)
        return 0;
    double width_s = n > 1 ? r->points[1].from_s - r->points[0].from_s : INFINITY;
    double last_s = r->points[n - 1].from_s, end_s = page_sane(r->summary.makespan_s);
    if (end_s > last_s && end_s <= last_s + width_s)
        return end_s;
    return isfinite(width_s) ? last_s + width_s : last_s;
}

/* Merges intervals, so that a strip has at most one per pixel. */
static void take_course(const struct result *r, struct course *ret)
{
    size_t each = (r->point_count + REPORT_INTERVALS_MAX - 1) / REPORT_INTERVALS_MAX;
    ret->count = 0;
    for (size_t i = 0; i < r->point_count; i += each) {
        struct interval *to = &ret->intervals[ret->count++];
        size_t end = i + each < r->point_count ? i + each : r->point_count;
        double part = 1 / (double)(end - i);
        *to = (struct interval){.from_s = r->points[i].from_s,
                                .to_s = end < r->point_count ? r->points[end].from_s : end_of(r)};
        for (; end > i; end--) {
            const struct result_point *from = &r->points[end - 1];
            to->mean.sm += part * from->sm;
            to->mean.memory += part * from->memory;
            to->mean.running += part * from->running;
            to->mean.waiting += part * from->waiting;
            to->mean.requests += from->requests;
            to->mean.late_requests += from->late_requests;
        }
    }
}

static double point_sm(const struct result_point *p)
{
    return p->sm;
}
static double point_memory(const struct result_point *p)
{
    return p->memory;
}
static double point_running(const struct result_point *p)
{
    return p->running;
}
static double point_waiting(const struct result_point *p)
{
    return p->waiting;
}
static double point_late(const struct result_point *p)
{
    return p->requests > 0 ? p->late_requests / p->requests : 0;
}

/* One column of strips. */
struct column {
    enum axis_quantity quantity;
    const char *face_name, *line_name; /* for the legend; line_name NULL: no line */
    double (*face)(const struct result_point *p);
    double (*line)(const struct result_point *p);
    double high; /* of the axis; 0: from the data */
};

static const struct column parts_column = {.quantity = AXIS_PERCENT,
                                           .face_name = "SMs in use",
                                           .line_name = "memory reserved",
                                           .face = point_sm,
                                           .line = point_memory,
                                           .high = 1};
static const struct column counts_column = {.quantity = AXIS_NUMBER,
                                            .face_name = "workloads running",
                                            .line_name = "waiting",
                                            .face = point_running,
                                            .line = point_waiting};
static const struct column late_column = {
    .quantity = AXIS_PERCENT, .face_name = "requests late", .face = point_late};

static const struct result *shown_result(const struct page *p, size_t line)
{
    return page_result(p, p->focus, 0, p->lines[line]);
}

static double highest(const struct page *p, const struct column *c)
{
    double high = 0;
    for (size_t line = 0; c->high == 0 && line < p->line_count; line++) {
        struct course course;
        take_course(shown_result(p, line), &course);
        for (size_t i = 0; i < course.count; i++) {
            high = fmax(high, c->face(&course.intervals[i].mean));
            high = fmax(high, c->line ? c->line(&course.intervals[i].mean) : 0);
        }
    }
    return c->high > 0 ? c->high : high;
}

static void trace_path(struct svg *g, const struct plot *plot, const struct course *c,
                       double (*value)(const struct result_point *p))
{
    for (size_t i = 0; i < c->count; i++) {
        double y = axis_at(&plot->y, value(&c->intervals[i].mean));
        svg_path_to(g, axis_at(&plot->x, c->intervals[i].from_s), y);
        svg_path_to(g, axis_at(&plot->x, c->intervals[i].to_s), y);
    }
}

static void draw_strip(struct svg *g, const struct plot *plot, const struct column *column,
                       const struct course *c)
{
    plot_frame(g, plot);
    if (c->count == 0)
        return;
    svg_path_begin(g);
    svg_path_to(g, axis_at(&plot->x, c->intervals[0].from_s), plot->y.from_px);
    trace_path(g, plot, c, column->face);
    svg_path_to(g, axis_at(&plot->x, c->intervals[c->count - 1].to_s), plot->y.from_px);
    svg_path_close(g);
    svg_path_end(g, FACE_ATTRIBUTES);
    svg_path_begin(g);
    trace_path(g, plot, c, column->face);
    svg_path_end(g, FACE_LINE);
    if (!column->line)
        return;
    svg_path_begin(g);
    trace_path(g, plot, c, column->line);
    svg_path_end(g, DASHED_LINE);
}

static void draw_column_legend(struct svg *g, const struct column *c, double x)
{
    svg_rect(g, x, 5, STYLE_KEY_PX, 10, FACE_ATTRIBUTES);
    svg_line(g, x, 5, x + STYLE_KEY_PX, 5, FACE_LINE);
    svg_text(g, x + STYLE_KEY_PX + 6, 14, "", c->face_name);
    if (!c->line)
        return;
    x += STYLE_KEY_PX + 24 + svg_text_width(c->face_name, SVG_FONT_PX);
    svg_line(g, x, 10, x + STYLE_KEY_PX, 10, DASHED_LINE);
    svg_text(g, x + STYLE_KEY_PX + 6, 14, "", c->line_name);
}

/* Draws the total above a strip, on the right. */
static void draw_total(struct svg *g, const struct column *column, const struct result *r,
                       const struct plot *plot)
{
    char text[PAGE_TEXT_MAX];
    const struct result_summary *s = &r->summary;
    if (column->face == point_sm)
        (void)snprintf(text, sizeof text, "mean: SMs %.0f %%, memory %.0f %%",
                       100 * page_sane(s->sm_mean), 100 * page_sane(s->memory_mean));
    else if (column->face == point_late)
        (void)snprintf(text, sizeof text, "%.2f %% of %.3g million requests late",
                       100 * page_sane(summary_late(s)), page_sane(s->requests) / 1e6);
    else
        return;
    svg_text(g, plot->x.to_px, plot->y.to_px - 9,
             "text-anchor=\"end\" font-size=\"11\" fill=\"" SVG_FAINT "\"", text);
}

static void draw_strips(struct svg *g, const struct page *p, const struct column *const *columns,
                        size_t column_count)
{
    double width =
        (PAGE_WIDTH_PX - LEFT_PX - 12 - (double)(column_count - 1) * GAP_PX) / (double)column_count;
    double end_s = 0;
    for (size_t line = 0; line < p->line_count; line++)
        end_s = fmax(end_s, end_of(shown_result(p, line)));
    for (size_t i = 0; i < column_count; i++) {
        double left = LEFT_PX + (double)i * (width + GAP_PX), high = highest(p, columns[i]);
        draw_column_legend(g, columns[i], left);
        for (size_t line = 0; line < p->line_count; line++) {
            double top = TOP + (double)line * STRIP_STEP + 18;
            bool is_last = line + 1 == p->line_count;
            struct plot plot = {.title = i == 0 ? page_variant_name(p, p->lines[line]) : NULL,
                                .x_title = is_last ? "time since the first submission" : NULL};
            struct course course;
            axis_init_until(&plot.x, AXIS_TIME, end_s, left, left + width, 64);
            axis_init_linear(&plot.y, columns[i]->quantity, high, top + STRIP_HEIGHT, top, 20);
            take_course(shown_result(p, line), &course);
            draw_strip(g, &plot, columns[i], &course);
            draw_total(g, columns[i], shown_result(p, line), &plot);
        }
    }
}

static double strips_height(const struct page *p)
{
    return TOP + (double)p->line_count * STRIP_STEP + BELOW - 18;
}

static void write_place(struct page *p)
{
    char rate[PAGE_TEXT_MAX], seed[PAGE_TEXT_MAX];
    page_rate_text(p, p->focus, rate);
    page_seed_text(p, seed);
    str_printf(p->out, "At %s%s, with %s.", rate,
               p->report->config->rate_count > 1 ? ", the highest" : "", seed);
}

int section_utilisation(struct page *p)
{
    static const struct column *const columns[] = {&parts_column, &counts_column};
    struct svg g;
    page_heading(p, "utilisation", "Utilisation over time");
    page_figure_begin(p);
    svg_begin(&g, p->out, "figure-utilisation", PAGE_WIDTH_PX, strips_height(p),
              "Utilisation over time",
              "A row for each policy. Left: the part of all SMs in use and of all memory reserved. "
              "Right: "
              "workloads that run and that wait.");
    draw_strips(&g, p, columns, 2);
    svg_end(&g);
    page_figure_caption(p);
    str_append(p->out,
               "Left (%): the SMs that all devices keep busy, and the memory that is reserved on "
               "them. Right: workloads that run, and that wait. ");
    write_place(p);
    page_lines_note(p);
    page_figure_end(p);
    return 0;
}

int section_slo(struct page *p)
{
    static const struct column *const columns[] = {&late_column};
    struct svg g;
    page_heading(p, "slo", "Requests late over time");
    if (!page_has_requests(p)) {
        page_missing(p, "There were no services, so no request could be late: "
                        "<code>--services N</code> has N of them beside the tasks.");
        return 0;
    }
    page_figure_begin(p);
    svg_begin(
        &g, p->out, "figure-slo", PAGE_WIDTH_PX, strips_height(p), "Requests late over time",
        "A row for each policy: the part of the requests of all services that were answered after "
        "their SLO.");
    draw_strips(&g, p, columns, 1);
    svg_end(&g);
    page_figure_caption(p);
    str_append(
        p->out,
        "Part of the requests of all services that were answered after their SLO (%), in each "
        "interval. ");
    write_place(p);
    page_lines_note(p);
    page_figure_end(p);
    return 0;
}
