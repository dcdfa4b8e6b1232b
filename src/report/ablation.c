/* Ablations: every policy as a whole, and without some of its parts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/axis.h"
#include "report/report_internal.h"
#include "report/style.h"

enum {
    NAME_PX = 176,
    ROW_PX = 24,
    BAR_PX = 14,
    GROUP_PX = 30, /* name above a policy's rows */
    TOP = 26,
    BELOW = 8,
    VALUE_PX = 104, /* number beside a bar, and its difference */
    GAP_PX = 10,
    PANELS_MAX = 3,
};

#define WHOLE_BAR "fill=\"#0072b2\""

struct panel {
    const char *title;
    double (*value)(const struct result_summary *s);
    bool is_percent;
};

static bool has_ablations(const struct page *p, size_t variant)
{
    const struct campaign_config *c = p->report->config;
    for (size_t i = 0; i < c->variant_count; i++)
        if (page_is_ablation(p, i) && !page_is_ablation(p, variant) &&
            c->variants[i].policy == c->variants[variant].policy && i != variant)
            return true;
    return false;
}

static bool is_of(const struct page *p, size_t variant, size_t whole)
{
    const struct campaign_variant *variants = p->report->config->variants;
    return variant == whole ||
           (page_is_ablation(p, variant) && variants[variant].policy == variants[whole].policy);
}

/* Returns whether the variant lacks all parts that other variants of its policy lack. */
static bool lacks_all(const struct page *p, size_t variant, size_t whole)
{
    const struct campaign_config *c = p->report->config;
    size_t own = 0, all = 0;
    for (enum policy_part part = 0; part < POLICY_PART_END; part++) {
        bool is_lacked = false;
        for (size_t i = 0; i < c->variant_count; i++)
            is_lacked |= is_of(p, i, whole) && c->variants[i].options.without[part];
        own += c->variants[variant].options.without[part];
        all += is_lacked;
    }
    return own == all && all > 1;
}

static void value_text(const struct panel *panel, const struct duration_unit *unit, double value,
                       double whole, char text[PAGE_TEXT_MAX])
{
    if (panel->is_percent)
        (void)snprintf(text, PAGE_TEXT_MAX, "%.2f %%", 100 * value);
    else
        (void)snprintf(text, PAGE_TEXT_MAX, "%.1f %s", value / unit->seconds, unit->name);
    size_t length = strlen(text);
    if (!panel->is_percent && whole > 0)
        (void)snprintf(text + length, PAGE_TEXT_MAX - length, " (%+.0f %%)",
                       100 * (value / whole - 1));
}

static void draw_bar(struct svg *g, const struct page *p, const struct panel *panel,
                     const struct axis *x, size_t variant, size_t whole, double y)
{
    char text[PAGE_TEXT_MAX], face[STYLE_TEXT_MAX];
    struct spread value = page_spread(p, p->focus, variant, panel->value);
    double reference = variant == whole ? 0 : page_spread(p, p->focus, whole, panel->value).mean;
    double end = axis_at(x, value.mean), top = y + (ROW_PX - BAR_PX) / 2.0;
    value_text(panel, duration_unit_for(x->high / 2), value.mean, reference, text);
    (void)snprintf(face, sizeof face, "fill=\"url(#%s-without)\" stroke=\"#0072b2\"", g->id);
    svg_rect(g, x->from_px, top, end - x->from_px, BAR_PX, variant == whole ? WHOLE_BAR : face);
    if (value.high > value.low) {
        double middle = top + BAR_PX / 2.0, high = axis_at(x, value.high);
        svg_line(g, axis_at(x, value.low), middle, high, middle,
                 "stroke=\"#000\" stroke-width=\"1.4\"");
        end = fmax(end, high);
    }
    svg_text(g, end + 6, y + ROW_PX / 2.0 + 4, "font-size=\"11\"", text);
}

static void draw_group(struct svg *g, const struct page *p, const struct panel *panels,
                       const struct axis *axes, size_t panel_count, size_t whole, double *y)
{
    const struct campaign_config *c = p->report->config;
    svg_text(g, 0, *y + 19, "font-weight=\"bold\"", page_variant_name(p, whole));
    *y += GROUP_PX;
    double top = *y;
    for (size_t variant = 0; variant < c->variant_count; variant++) {
        char label[PAGE_TEXT_MAX];
        if (!is_of(p, variant, whole))
            continue;
        page_without_text(p, variant, label);
        if (lacks_all(p, variant, whole))
            (void)snprintf(label, sizeof label, "without all of these");
        svg_text_within(g, NAME_PX - 8, *y + ROW_PX / 2.0 + 4, "text-anchor=\"end\"", label,
                        NAME_PX - 8);
        for (size_t i = 0; i < panel_count; i++)
            draw_bar(g, p, &panels[i], &axes[i], variant, whole, *y);
        *y += ROW_PX;
    }
    for (size_t i = 0; i < panel_count; i++)
        svg_line(g, axes[i].from_px, top, axes[i].from_px, *y, "stroke=\"" SVG_RULE "\"");
}

static void init_axes(const struct page *p, const struct panel *panels, size_t panel_count,
                      struct axis *axes)
{
    const struct campaign_config *c = p->report->config;
    double width = (double)(PAGE_WIDTH_PX - NAME_PX) / (double)panel_count;
    for (size_t i = 0; i < panel_count; i++) {
        double high = 0, left = NAME_PX + (double)i * width;
        for (size_t whole = 0; whole < c->variant_count; whole++)
            for (size_t variant = 0; has_ablations(p, whole) && variant < c->variant_count;
                 variant++)
                if (is_of(p, variant, whole))
                    high = fmax(high, page_spread(p, p->focus, variant, panels[i].value).high);
        axis_init_until(&axes[i], AXIS_NUMBER, high, left, left + width - VALUE_PX - GAP_PX, 60);
    }
}

static double figure_height(const struct page *p)
{
    const struct campaign_config *c = p->report->config;
    double height = TOP + BELOW;
    for (size_t whole = 0; whole < c->variant_count; whole++) {
        if (!has_ablations(p, whole))
            continue;
        height += GROUP_PX;
        for (size_t variant = 0; variant < c->variant_count; variant++)
            height += is_of(p, variant, whole) ? ROW_PX : 0;
    }
    return height;
}

static void draw_figure(struct page *p)
{
    static const struct panel panels[PANELS_MAX] = {
        {"Mean completion time", summary_completion, false},
        {"Makespan", summary_makespan, false},
        {"Requests late", summary_late, true}};
    const struct campaign_config *c = p->report->config;
    size_t panel_count = page_has_requests(p) ? 3 : 2;
    struct axis axes[PANELS_MAX];
    struct svg g;
    double y = TOP;
    svg_begin(&g, p->out, "figure-ablation", PAGE_WIDTH_PX, figure_height(p), "Ablation",
              "Bars for each policy as a whole, and without some of its parts.");
    str_printf(p->out,
               "<defs><pattern id=\"%s-without\" width=\"6\" height=\"6\" "
               "patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\" "
               "fill=\"#fff\"/><path d=\"M-1 1L1 -1M0 6L6 0M5 7L7 5\" stroke=\"#0072b2\" "
               "stroke-width=\"1.2\"/></pattern></defs>\n",
               g.id);
    init_axes(p, panels, panel_count, axes);
    for (size_t i = 0; i < panel_count; i++)
        svg_text(&g, axes[i].from_px, 14, "fill=\"" SVG_FAINT "\"", panels[i].title);
    for (size_t whole = 0; whole < c->variant_count; whole++)
        if (has_ablations(p, whole))
            draw_group(&g, p, panels, axes, panel_count, whole, &y);
    svg_end(&g);
}

int section_ablation(struct page *p)
{
    const struct campaign_config *c = p->report->config;
    char rate[PAGE_TEXT_MAX];
    bool has_any = false;
    for (size_t i = 0; i < c->variant_count; i++)
        has_any = has_any || has_ablations(p, i);
    page_heading(p, "ablation", "Ablation");
    if (!has_any) {
        page_missing(p, "No policy was run both as a whole and without parts of it: "
                        "<code>--ablate tuner,predictor</code> runs each also without each of "
                        "these, and without all of them.");
        return 0;
    }
    page_rate_text(p, p->focus, rate);
    page_figure_begin(p);
    draw_figure(p);
    page_figure_caption(p);
    str_printf(
        p->out,
        "Policies as a whole (full bars), and without parts of them (hatched), at %s%s; how much "
        "longer it takes than as a whole in brackets. Shorter is better.",
        rate, c->rate_count > 1 ? ", the highest" : "");
    if (c->seed_count > 1)
        str_printf(p->out,
                   " Means over %zu seeds; black lines reach from the lowest to the highest.",
                   c->seed_count);
    page_figure_end(p);
    return 0;
}
