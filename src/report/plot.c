#include "report/plot.h"

#include <math.h>
#include <stdio.h>

enum { TITLE_TEXT_MAX = 128 };

static void draw_x(struct svg *g, const struct plot *p)
{
    const struct axis *x = &p->x, *y = &p->y;
    for (size_t i = 0; i < x->tick_count; i++) {
        double at = axis_at(x, x->ticks[i].value);
        svg_line(g, at, y->from_px, at, y->to_px, "stroke=\"" SVG_GRID "\"");
        svg_line(g, at, y->from_px, at, y->from_px + 4, "stroke=\"" SVG_RULE "\"");
        if (p->x_title)
            svg_text(g, at, y->from_px + 17, "text-anchor=\"middle\" font-size=\"11\"",
                     x->ticks[i].label);
    }
}

static void draw_y(struct svg *g, const struct plot *p)
{
    const struct axis *x = &p->x, *y = &p->y;
    for (size_t i = 0; i < y->tick_count; i++) {
        double at = axis_at(y, y->ticks[i].value);
        svg_line(g, x->from_px, at, x->to_px, at, "stroke=\"" SVG_GRID "\"");
        svg_text(g, x->from_px - 6, at + 4, "text-anchor=\"end\" font-size=\"11\"",
                 y->ticks[i].label);
    }
}

static void with_unit(const char *title, const char *unit, char text[TITLE_TEXT_MAX])
{
    if (*unit)
        (void)snprintf(text, TITLE_TEXT_MAX, "%s (%s)", title, unit);
    else
        (void)snprintf(text, TITLE_TEXT_MAX, "%s", title);
}

void plot_frame(struct svg *g, const struct plot *p)
{
    const struct axis *x = &p->x, *y = &p->y;
    char text[TITLE_TEXT_MAX];
    draw_x(g, p);
    draw_y(g, p);
    svg_line(g, x->from_px, y->from_px, x->to_px, y->from_px, "stroke=\"" SVG_RULE "\"");
    if (p->x_title) {
        with_unit(p->x_title, x->unit, text);
        svg_text(g, (x->from_px + x->to_px) / 2, y->from_px + 35,
                 "text-anchor=\"middle\" fill=\"" SVG_FAINT "\"", text);
    }
    double above = y->to_px - 10;
    if (p->y_title) {
        with_unit(p->y_title, y->unit, text);
        svg_text(g, x->from_px, above, "fill=\"" SVG_FAINT "\"", text);
        above -= 18;
    }
    if (p->title)
        svg_text(g, x->from_px, above, "font-weight=\"bold\"", p->title);
}

void plot_spread(double *positions, size_t count, double gap, double low, double high)
{
    size_t order[PLOT_LABELS_MAX];
    if (count > PLOT_LABELS_MAX)
        count = PLOT_LABELS_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && positions[order[at - 1]] > positions[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (size_t i = 0; i < count; i++) {
        double least = i > 0 ? positions[order[i - 1]] + gap : low;
        positions[order[i]] = fmax(positions[order[i]], least);
    }
    for (size_t i = count; i-- > 0;) {
        double most = i + 1 < count ? positions[order[i + 1]] - gap : high;
        positions[order[i]] = fmin(positions[order[i]], most);
    }
}
