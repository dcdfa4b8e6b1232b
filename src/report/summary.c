/* The table of all policies at all rates. */
#include <math.h>
#include <stdio.h>

#include "report/markup.h"
#include "report/report_internal.h"

static double completion_p50(const struct result_summary *s)
{
    return s->completion.p50_s;
}
static double completion_p95(const struct result_summary *s)
{
    return s->completion.p95_s;
}
static double completion_p99(const struct result_summary *s)
{
    return s->completion.p99_s;
}
static double pd(const struct result_summary *s)
{
    return s->pd_mean;
}
static double sm(const struct result_summary *s)
{
    return s->sm_mean;
}
static double memory(const struct result_summary *s)
{
    return s->memory_mean;
}
static double evictions(const struct result_summary *s)
{
    return (double)s->evictions;
}
static double not_done(const struct result_summary *s)
{
    return (double)(s->unfinished + s->failed);
}

enum best { BEST_LOW, BEST_HIGH, BEST_NONE };

static const struct column {
    const char *title, *about;
    double (*value)(const struct result_summary *s);
    enum { CELL_TIME, CELL_RATIO, CELL_PERCENT, CELL_FINE_PERCENT, CELL_COUNT } cell;
    enum best best; /* value of the column that is printed bold */
    bool has_bar;
    bool of_services; /* shown only with services */
} columns[] = {
    {"mean", "completion time, mean", summary_completion, CELL_TIME, BEST_LOW, true, false},
    {"p50", "completion time, median", completion_p50, CELL_TIME, BEST_LOW, false, false},
    {"p95", "completion time, 95th percentile", completion_p95, CELL_TIME, BEST_LOW, false, false},
    {"p99", "completion time, 99th percentile", completion_p99, CELL_TIME, BEST_LOW, false, false},
    {"Waiting", "waiting time, mean", summary_waiting, CELL_TIME, BEST_LOW, false, false},
    {"Makespan", "from the first submission to the last end", summary_makespan, CELL_TIME, BEST_LOW,
     false, false},
    {"PD", "time running, relative to alone", pd, CELL_RATIO, BEST_LOW, false, false},
    {"SM", "SMs in use, mean over all devices and the makespan", sm, CELL_PERCENT, BEST_HIGH, false,
     false},
    {"Memory", "memory reserved, mean over all devices and the makespan", memory, CELL_PERCENT,
     BEST_NONE, false, false},
    {"Evicted", "tasks moved by a round, a limit or a fault", evictions, CELL_COUNT, BEST_NONE,
     false, false},
    {"Late", "part of all requests that were answered after their SLO", summary_late,
     CELL_FINE_PERCENT, BEST_LOW, false, true},
    {"Not done", "tasks that failed or did not end", not_done, CELL_COUNT, BEST_NONE, false, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns, COMPLETION_COLUMNS = 4 };

static bool is_shown(const struct page *p, size_t column)
{
    return !columns[column].of_services || page_has_requests(p);
}

static void format_value(const struct column *c, double value, const struct duration_unit *unit,
                         char text[PAGE_TEXT_MAX])
{
    switch (c->cell) {
    case CELL_TIME:
        (void)snprintf(text, PAGE_TEXT_MAX, "%.1f", value / unit->seconds);
        break;
    case CELL_RATIO:
        (void)snprintf(text, PAGE_TEXT_MAX, "%.2f", value);
        break;
    case CELL_PERCENT:
        (void)snprintf(text, PAGE_TEXT_MAX, "%.0f&#8239;%%", 100 * value);
        break;
    case CELL_FINE_PERCENT:
        (void)snprintf(text, PAGE_TEXT_MAX, "%.2f&#8239;%%", 100 * value);
        break;
    case CELL_COUNT:
        (void)snprintf(text, PAGE_TEXT_MAX, "%.0f", value);
        break;
    }
}

static void write_head(struct page *p, const struct duration_unit *unit)
{
    str_printf(p->out,
               "<thead>\n<tr><th rowspan=\"2\" scope=\"col\" class=\"name\">Policy</th>"
               "<th colspan=\"%d\" scope=\"colgroup\" class=\"group\">Completion time (%s)</th>",
               COMPLETION_COLUMNS, unit->name);
    for (size_t i = COMPLETION_COLUMNS; i < COLUMNS; i++)
        if (is_shown(p, i))
            str_printf(p->out, "<th rowspan=\"2\" scope=\"col\" title=\"%s\">%s%s%s%s</th>",
                       columns[i].about, columns[i].title, columns[i].cell == CELL_TIME ? " (" : "",
                       columns[i].cell == CELL_TIME ? unit->name : "",
                       columns[i].cell == CELL_TIME ? ")" : "");
    str_append(p->out, "</tr>\n<tr>");
    for (size_t i = 0; i < COMPLETION_COLUMNS; i++)
        str_printf(p->out, "<th scope=\"col\" title=\"%s\">%s</th>", columns[i].about,
                   columns[i].title);
    str_append(p->out, "</tr>\n</thead>\n");
}

struct column_range {
    double low, high; /* of unablated policies, one of which is the best */
    double highest;   /* over all policies */
};

static void write_cell(struct page *p, size_t rate, size_t variant, const struct column *c,
                       const struct column_range *range, const struct duration_unit *unit)
{
    char text[PAGE_TEXT_MAX];
    struct spread x = page_spread(p, rate, variant, c->value);
    bool is_best = range->low < range->high && !page_is_ablation(p, variant) &&
                   ((c->best == BEST_LOW && x.mean == range->low) ||
                    (c->best == BEST_HIGH && x.mean == range->high));
    format_value(c, x.mean, unit, text);
    str_printf(p->out, "<td>%s%s%s", is_best ? "<b>" : "", text, is_best ? "</b>" : "");
    if (c->has_bar && p->report->config->seed_count > 1) {
        format_value(c, (x.high - x.low) / 2, unit, text);
        str_printf(p->out, "<small> &#177;&#8239;%s</small>", text);
    }
    if (c->has_bar && range->highest > 0)
        str_printf(p->out, "<i class=\"track\"><i class=\"bar\" style=\"width:%.0f%%\"></i></i>",
                   100 * x.mean / range->highest);
    str_append(p->out, "</td>");
}

static void write_rate(struct page *p, size_t rate, const struct duration_unit *unit)
{
    const struct campaign_config *c = p->report->config;
    struct column_range ranges[COLUMNS];
    size_t shown = 1;
    for (size_t i = 0; i < COLUMNS; i++) {
        ranges[i] = (struct column_range){.low = INFINITY, .high = -INFINITY, .highest = 0};
        shown += is_shown(p, i);
        for (size_t variant = 0; variant < c->variant_count; variant++) {
            double mean = page_spread(p, rate, variant, columns[i].value).mean;
            ranges[i].highest = fmax(ranges[i].highest, mean);
            if (page_is_ablation(p, variant))
                continue;
            ranges[i].low = fmin(ranges[i].low, mean);
            ranges[i].high = fmax(ranges[i].high, mean);
        }
    }
    str_append(p->out, "<tbody>\n");
    if (c->rate_count > 1) {
        char text[PAGE_TEXT_MAX];
        page_rate_text(p, rate, text);
        str_printf(p->out,
                   "<tr><th colspan=\"%zu\" scope=\"rowgroup\" class=\"rate\">%s</th></tr>\n",
                   shown, text);
    }
    for (size_t variant = 0; variant < c->variant_count; variant++) {
        char name[PAGE_TEXT_MAX];
        bool is_part = page_is_ablation(p, variant);
        page_without_text(p, variant, name);
        str_printf(p->out, "<tr%s><th scope=\"row\" class=\"name\">",
                   is_part ? " class=\"part\"" : "");
        markup_text(p->out, is_part ? name : page_variant_name(p, variant));
        str_append(p->out, "</th>");
        for (size_t i = 0; i < COLUMNS; i++)
            if (is_shown(p, i))
                write_cell(p, rate, variant, &columns[i], &ranges[i], unit);
        str_append(p->out, "</tr>\n");
    }
    str_append(p->out, "</tbody>\n");
}

static void write_notes(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    const struct result *first = page_result(p, p->focus, 0, 0);
    size_t ablations = 0;
    for (size_t i = 0; i < c->variant_count; i++)
        ablations += page_is_ablation(p, i);
    str_append(
        p->out,
        "<p class=\"note\">Completion is from submission to end, waiting the part of it that a "
        "task "
        "did not run; both of tasks that ended. PD is the time that a task ran, relative to alone "
        "at "
        "its user&#8217;s batch size: less than 1 where another batch size was found faster. SM "
        "and "
        "memory are means over all devices and the whole makespan. The best of a column is bold.");
    if (c->seed_count > 1)
        str_printf(p->out,
                   " Means over %zu seeds; &#177; is half of what lies between the lowest and the "
                   "highest of them.",
                   c->seed_count);
    if (ablations > 0)
        str_append(p->out,
                   " Figures show policies as a whole; without parts of them, they are compared "
                   "under <a href=\"#ablation\">Ablation</a>.");
    if (first->summary.split_count > 0)
        str_printf(p->out,
                   " %zu of the tasks are larger than a node, and were split over whole nodes.",
                   first->summary.split_count);
    if (first->is_extrapolated)
        str_append(p->out,
                   " <b>Extrapolated</b>: speeds of GPUs that were not measured are scaled by "
                   "SMs and bandwidth.");
    str_append(p->out, "</p>\n");
}

int section_summary(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    const struct duration_unit *unit =
        duration_unit_for(page_spread(p, p->focus, 0, summary_completion).mean);
    page_heading(p, "summary", "Summary");
    str_append(p->out, "<div class=\"wide\"><table>\n");
    write_head(p, unit);
    for (size_t i = 0; i < c->rate_count; i++)
        write_rate(p, p->rates[i], unit);
    str_append(p->out, "</table></div>\n");
    write_notes(p);
    return 0;
}
