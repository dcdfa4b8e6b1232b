/* Stays of workloads on devices over time. A row is a device; workloads that share the device are
 * on separate lanes. */
#include <math.h>
#include <stdio.h>

#include "report/axis.h"
#include "report/markup.h"
#include "report/report_internal.h"
#include "report/style.h"

enum {
    LANES_MAX = 16, /* of a device; further workloads overlap on the last lane */
    LEFT_PX = 52,
    RIGHT_PX = PAGE_WIDTH_PX - 12,
    TITLE_PX = 26,
    ROW_PX = 20,
    ROW_GAP_PX = 3,
    BELOW_PX = 44,
    /* Upper limit of the models in a campaign. */
    MODELS_MAX = TABLES_MODELS_MAX + SERVING_PROFILES_MAX,
    KEY_PX = 22,
    KEY_LINE_PX = 20,
};
static const double visible_px = 0.4; /* shorter bars are not drawn */

/* A bar: a span with its lane. */
struct bar {
    const struct result_span *span;
    size_t lane;
};

struct chart {
    const struct result *result;
    size_t device_count;
    size_t lane_count; /* of the fullest device */
    size_t bar_count, short_count, left_out_count;
    struct bar bars[REPORT_SPANS_MAX];
};

/* Returns the first lane that is free at the start of the span. */
static size_t find_lane(double free_s[LANES_MAX], const struct result_span *span)
{
    size_t lane = 0;
    while (lane + 1 < LANES_MAX && free_s[lane] > span->from_s + 1e-9)
        lane++;
    free_s[lane] = span->to_s;
    return lane;
}

static void fill_chart(const struct axis *time, const struct result *r, struct chart *ret)
{
    double free_s[LANES_MAX] = {0};
    *ret = (struct chart){.result = r, .lane_count = 1};
    ret->device_count = r->device_count < REPORT_DEVICES_MAX ? r->device_count : REPORT_DEVICES_MAX;
    for (size_t i = 0; i < r->span_count; i++) {
        const struct result_span *span = &r->spans[i];
        if (span->device >= ret->device_count)
            break;
        if (i > 0 && span->device != r->spans[i - 1].device)
            for (size_t lane = 0; lane < LANES_MAX; lane++)
                free_s[lane] = 0;
        size_t lane = find_lane(free_s, span);
        if (lane + 1 > ret->lane_count)
            ret->lane_count = lane + 1;
        if (axis_at(time, span->to_s) - axis_at(time, span->from_s) < visible_px)
            ret->short_count++;
        else if (ret->bar_count == REPORT_SPANS_MAX)
            ret->left_out_count++;
        else
            ret->bars[ret->bar_count++] = (struct bar){.span = span, .lane = lane};
    }
}

static const struct result_workload *workload_of(const struct chart *c, const struct bar *bar)
{
    return &c->result->workloads[bar->span->workload];
}

static size_t model_of(const struct chart *c, const struct bar *bar)
{
    return workload_of(c, bar)->model % MODELS_MAX;
}

static bool is_service(const struct chart *c, const struct bar *bar)
{
    return workload_of(c, bar)->kind == WORKLOAD_SERVICE;
}

/* Returns the style of a bar. Services have a frame, because a service and a task may have models
 * of the same name. */
static void face_of(const struct svg *g, size_t model, bool of_service,
                    char attributes[2 * STYLE_TEXT_MAX])
{
    char face[STYLE_TEXT_MAX];
    style_face(g, model, face);
    (void)snprintf(attributes, 2 * STYLE_TEXT_MAX, "%s%s", face,
                   of_service ? " stroke=\"#000\" stroke-width=\"0.8\"" : "");
}

static const char *model_name(const struct result *r, size_t model)
{
    return model < r->model_count ? r->models[model] : "-";
}

struct box {
    double x, y, width, height;
};

static struct box box_of(const struct axis *time, const struct chart *c, const struct bar *bar,
                         double top)
{
    double lane_px = (double)ROW_PX / (double)c->lane_count;
    double x = axis_at(time, bar->span->from_s);
    return (struct box){.x = x,
                        .y = top + (double)bar->span->device * (ROW_PX + ROW_GAP_PX) +
                             (double)bar->lane * lane_px,
                        .width = axis_at(time, bar->span->to_s) - x,
                        .height = lane_px - (lane_px > 3 ? 0.6 : 0)};
}

/* Draws all bars of a model as one path, because a separate hatch per bar makes printed files
 * large. */
static void draw_bars(struct svg *g, const struct axis *time, const struct chart *c, double top)
{
    for (size_t model = 0; model < MODELS_MAX; model++) {
        char face[2 * STYLE_TEXT_MAX];
        bool of_service = false, has_any = false;
        for (size_t i = 0; i < c->bar_count; i++) {
            struct box b = box_of(time, c, &c->bars[i], top);
            if (model_of(c, &c->bars[i]) != model)
                continue;
            if (!has_any)
                svg_path_begin(g);
            has_any = true;
            of_service = is_service(c, &c->bars[i]);
            svg_path_to(g, b.x, b.y);
            svg_path_to(g, b.x + b.width, b.y);
            svg_path_to(g, b.x + b.width, b.y + b.height);
            svg_path_to(g, b.x, b.y + b.height);
            svg_path_close(g);
        }
        face_of(g, model, of_service, face);
        if (has_any)
            svg_path_end(g, face);
    }
}

/* Writes the text that each bar shows on hover. */
static void write_tips(struct svg *g, const struct axis *time, const struct chart *c, double top)
{
    str_append(g->out, "<g fill=\"none\" pointer-events=\"all\">\n");
    for (size_t i = 0; i < c->bar_count; i++) {
        const struct result_span *span = c->bars[i].span;
        const struct result_workload *w = workload_of(c, &c->bars[i]);
        struct box b = box_of(time, c, &c->bars[i], top);
        char about[PAGE_TEXT_MAX], from[DURATION_TEXT_MAX], to[DURATION_TEXT_MAX];
        duration_text(span->from_s, from);
        duration_text(span->to_s, to);
        (void)snprintf(about, sizeof about, "%s %llu, %s: %s to %s",
                       is_service(c, &c->bars[i]) ? "service" : "task", (unsigned long long)w->id,
                       model_name(c->result, w->model), from, to);
        svg_tip(g, b.x, b.y, b.width, b.height, about);
    }
    str_append(g->out, "</g>\n");
}

/* Labels devices with the name of their node and their index, and draws lines between nodes. */
static void draw_rows(struct svg *g, const struct page *p, const struct chart *c, double top)
{
    const struct hardware *h = p->report->config->engine.hardware;
    size_t device = 0, node = 0;
    for (size_t i = 0; i < h->group_count; i++)
        for (size_t n = 0; n < h->groups[i].node_count; n++, node++)
            for (int d = 0; d < h->groups[i].devices_per_node; d++, device++) {
                char label[PAGE_TEXT_MAX];
                double y = top + (double)device * (ROW_PX + ROW_GAP_PX);
                if (device >= c->device_count)
                    return;
                svg_rect(g, LEFT_PX, y, RIGHT_PX - LEFT_PX, ROW_PX, "fill=\"#f4f4f4\"");
                if (d == 0 && device > 0)
                    svg_line(g, LEFT_PX - 40, y - ROW_GAP_PX / 2.0, RIGHT_PX, y - ROW_GAP_PX / 2.0,
                             "stroke=\"" SVG_RULE "\" stroke-width=\"0.7\"");
                (void)snprintf(label, sizeof label, "n%zu:%d", node, d);
                svg_text(g, LEFT_PX - 7, y + ROW_PX / 2.0 + 4,
                         "text-anchor=\"end\" font-size=\"11\" fill=\"" SVG_FAINT "\"", label);
            }
}

static void draw_time(struct svg *g, const struct axis *time, double bottom)
{
    char text[PAGE_TEXT_MAX];
    for (size_t i = 0; i < time->tick_count; i++) {
        double x = axis_at(time, time->ticks[i].value);
        svg_line(g, x, bottom, x, bottom + 4, "stroke=\"" SVG_RULE "\"");
        svg_text(g, x, bottom + 17, "text-anchor=\"middle\" font-size=\"11\"",
                 time->ticks[i].label);
    }
    (void)snprintf(text, sizeof text, "time since the first submission (%s)", time->unit);
    svg_text(g, (LEFT_PX + RIGHT_PX) / 2.0, bottom + 35,
             "text-anchor=\"middle\" fill=\"" SVG_FAINT "\"", text);
}

/* Draws the keys of the chart's models in rows from `top` on; without `g`, only measures. Returns
 * the height. */
static double draw_keys(struct svg *g, const struct chart *c, double top)
{
    bool is_used[MODELS_MAX] = {0}, of_service[MODELS_MAX] = {0};
    double x = LEFT_PX, y = top;
    for (size_t i = 0; i < c->bar_count; i++) {
        is_used[model_of(c, &c->bars[i])] = true;
        of_service[model_of(c, &c->bars[i])] = is_service(c, &c->bars[i]);
    }
    for (size_t model = 0; model < MODELS_MAX; model++) {
        char name[PAGE_TEXT_MAX];
        (void)snprintf(name, sizeof name, "%s%s", model_name(c->result, model),
                       of_service[model] ? " (service)" : "");
        double width = KEY_PX + 22 + svg_text_width(name, SVG_FONT_PX);
        char face[2 * STYLE_TEXT_MAX];
        if (!is_used[model])
            continue;
        if (x + width > RIGHT_PX) {
            x = LEFT_PX;
            y += KEY_LINE_PX;
        }
        if (g) {
            style_define_face(g, model);
            face_of(g, model, of_service[model], face);
            svg_rect(g, x, y, KEY_PX, 11, face);
            svg_text(g, x + KEY_PX + 6, y + 10, "", name);
        }
        x += width;
    }
    return y + KEY_LINE_PX - top;
}

static void write_caption(struct page *p, const char *policy, const struct chart *c)
{
    char rate[PAGE_TEXT_MAX], seed[PAGE_TEXT_MAX];
    page_rate_text(p, p->focus, rate);
    page_seed_text(p, seed);
    page_figure_caption(p);
    str_append(p->out, "Devices under <b>");
    markup_text(p->out, policy);
    str_printf(
        p->out,
        "</b>: each row is a device (node:number), each bar a workload on it, by what it runs; "
        "workloads that share a device are above each other, at most %zu here. At %s, with %s. "
        "The time is the same in all of these figures.",
        c->lane_count, rate, seed);
    if (c->device_count < c->result->device_count)
        str_printf(p->out, " Shown are the first %zu of %zu devices.", c->device_count,
                   c->result->device_count);
    if (c->short_count > 0)
        str_printf(p->out, " Left out because they would be too short to be seen: %zu.",
                   c->short_count);
    if (c->left_out_count > 0)
        str_printf(p->out, " Left out after the first %d bars: %zu.", REPORT_SPANS_MAX,
                   c->left_out_count);
    page_figure_end(p);
}

static void write_chart(struct page *p, size_t line, double end_s)
{
    const struct result *r = page_result(p, p->focus, 0, p->lines[line]);
    const char *policy = page_variant_name(p, p->lines[line]);
    struct axis time;
    struct chart c;
    struct svg g;
    char id[PAGE_TEXT_MAX], title[2 * PAGE_TEXT_MAX];
    axis_init_until(&time, AXIS_TIME, end_s, LEFT_PX, RIGHT_PX, 80);
    fill_chart(&time, r, &c);
    double top = TITLE_PX + draw_keys(NULL, &c, 0) + 4;
    double bottom = top + (double)c.device_count * (ROW_PX + ROW_GAP_PX);
    (void)snprintf(id, sizeof id, "figure-devices-%zu", line + 1);
    (void)snprintf(title, sizeof title, "Devices under %s", policy);
    page_figure_begin(p);
    svg_begin(&g, p->out, id, PAGE_WIDTH_PX, bottom + BELOW_PX, title,
              "A row for each device, a bar for each workload from its start there to its end.");
    svg_text(&g, LEFT_PX, 14, "font-weight=\"bold\"", policy);
    (void)draw_keys(&g, &c, TITLE_PX);
    draw_rows(&g, p, &c, top);
    draw_bars(&g, &time, &c, top);
    write_tips(&g, &time, &c, top);
    draw_time(&g, &time, bottom);
    svg_end(&g);
    write_caption(p, policy, &c);
}

int section_devices(struct page *p)
{
    size_t shown = p->line_count < REPORT_GANTTS_MAX ? p->line_count : REPORT_GANTTS_MAX;
    double end_s = 0;
    size_t spans = 0;
    page_heading(p, "devices", "Devices");
    for (size_t line = 0; line < shown; line++) {
        const struct result *r = page_result(p, p->focus, 0, p->lines[line]);
        spans += r->span_count;
        for (size_t i = 0; i < r->span_count; i++)
            end_s = fmax(end_s, isfinite(r->spans[i].to_s) ? r->spans[i].to_s : 0);
    }
    if (spans == 0) {
        page_missing(p, "Nothing ran on a device.");
        return 0;
    }
    if (shown < p->line_count)
        str_printf(p->out,
                   "<p>Of %zu policies, the first %zu are drawn: <code>--policy</code> says which "
                   "these are.</p>\n",
                   p->line_count + p->lines_left_out, shown);
    for (size_t line = 0; line < shown; line++)
        write_chart(p, line, end_s);
    return 0;
}
