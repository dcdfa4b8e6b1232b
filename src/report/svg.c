#include "report/svg.h"

#include <math.h>
#include <string.h>

#include "report/markup.h"

enum { WITHIN_MAX = 256 }; /* in bytes */
static const char ellipsis[] = "\xe2\x80\xa6";
static const double number_max = 1e6;

/* Mean width of a character in common sans-serif fonts, relative to the font size. */
static const double character_em = 0.53;

void svg_begin(struct svg *g, struct str *out, const char *id, double width, double height,
               const char *title, const char *description)
{
    *g = (struct svg){.out = out, .id = id};
    str_printf(out,
               "<svg id=\"%s\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
               "width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-labelledby=\"%s-title %s-desc\" ",
               id, width, height, width, height, id, id);
    str_printf(
        out,
        "font-family=\"'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', "
        "sans-serif\" font-size=\"%d\" fill=\"" SVG_INK "\">\n",
        SVG_FONT_PX);
    str_printf(out, "<title id=\"%s-title\">", id);
    markup_text(out, title);
    str_printf(out, "</title>\n<desc id=\"%s-desc\">", id);
    markup_text(out, description);
    str_append(out, "</desc>\n");
    svg_rect(g, 0, 0, width, height, "fill=\"#fff\"");
}

void svg_end(struct svg *g)
{
    str_append(g->out, "</svg>\n");
}

void svg_number(struct svg *g, double value)
{
    if (!isfinite(value))
        value = 0;
    double tenths = round(10 * fmax(-number_max, fmin(number_max, value)));
    if (tenths == 0)
        str_append_char(g->out, '0'); /* never -0 */
    else if (fmod(tenths, 10) == 0)
        str_printf(g->out, "%.0f", tenths / 10);
    else
        str_printf(g->out, "%.1f", tenths / 10);
}

static void attribute(struct svg *g, const char *name, double value)
{
    str_printf(g->out, " %s=\"", name);
    svg_number(g, value);
    str_append_char(g->out, '"');
}

void svg_line(struct svg *g, double x1, double y1, double x2, double y2, const char *attributes)
{
    str_append(g->out, "<line");
    attribute(g, "x1", x1);
    attribute(g, "y1", y1);
    attribute(g, "x2", x2);
    attribute(g, "y2", y2);
    str_printf(g->out, " %s/>\n", attributes);
}

static void begin_rect(struct svg *g, double x, double y, double width, double height)
{
    str_append(g->out, "<rect");
    attribute(g, "x", x);
    attribute(g, "y", y);
    attribute(g, "width", fmax(width, 0));
    attribute(g, "height", fmax(height, 0));
}

void svg_rect(struct svg *g, double x, double y, double width, double height,
              const char *attributes)
{
    begin_rect(g, x, y, width, height);
    str_printf(g->out, " %s/>\n", attributes);
}

void svg_tip(struct svg *g, double x, double y, double width, double height, const char *about)
{
    begin_rect(g, x, y, width, height);
    str_append(g->out, "><title>");
    markup_text(g->out, about);
    str_append(g->out, "</title></rect>\n");
}

void svg_text(struct svg *g, double x, double y, const char *attributes, const char *text)
{
    str_append(g->out, "<text");
    attribute(g, "x", x);
    attribute(g, "y", y);
    str_printf(g->out, "%s%s>", *attributes ? " " : "", attributes);
    markup_text(g->out, text);
    str_append(g->out, "</text>\n");
}

void svg_text_within(struct svg *g, double x, double y, const char *attributes, const char *text,
                     double width_px)
{
    char cut[WITHIN_MAX + sizeof ellipsis];
    size_t most = (size_t)fmax(width_px / (character_em * SVG_FONT_PX), 1);
    if (svg_text_width(text, SVG_FONT_PX) <= width_px && strlen(text) < WITHIN_MAX) {
        svg_text(g, x, y, attributes, text);
        return;
    }
    (void)str_copy(cut, most < WITHIN_MAX ? most : WITHIN_MAX, text);
    cut[str_utf8_prefix(cut, strlen(cut))] = '\0';
    memcpy(cut + strlen(cut), ellipsis, sizeof ellipsis);
    svg_text(g, x, y, attributes, cut);
}

void svg_path_begin(struct svg *g)
{
    str_append(g->out, "<path d=\"");
    g->path_has_point = false;
}

void svg_path_to(struct svg *g, double x, double y)
{
    str_append_char(g->out, g->path_has_point ? 'L' : 'M');
    svg_number(g, x);
    str_append_char(g->out, ' ');
    svg_number(g, y);
    g->path_has_point = true;
}

void svg_path_close(struct svg *g)
{
    str_append_char(g->out, 'Z');
    g->path_has_point = false;
}

void svg_path_end(struct svg *g, const char *attributes)
{
    str_printf(g->out, "\" %s/>\n", attributes);
}

double svg_text_width(const char *text, double font_px)
{
    size_t characters = 0;
    for (; *text; text++)
        characters += (*text & 0xc0) != 0x80; /* count only the first byte of each character */
    return (double)characters * character_em * font_px;
}
