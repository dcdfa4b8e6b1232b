#include "report/style.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Without yellow, which is too light for a line. */
static const char *const line_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                           "#e69f00", "#56b4e9", "#000000"};
static const char *const dashes[] = {"", "8 3", "2.5 2.5", "9 3 2.5 3", "14 3"};

static const char *const face_colours[] = {"#56b4e9", "#e69f00", "#009e73", "#f0e442",
                                           "#cc79a7", "#0072b2", "#d55e00", "#b3b3b3"};
/* On a tile of 5 by 5; NULL: plain. */
static const char *const hatches[] = {NULL, "M-1 1L1 -1M0 5L5 0M4 6L6 4", "M1.2 1.2h1.4v1.4h-1.4Z",
                                      "M0 2.5H5", "M-1 4L1 6M0 0L5 5M4 -1L6 1"};

/* Centred on 0 0. */
static const char *const markers[] = {"M-3.4 0A3.4 3.4 0 1 0 3.4 0A3.4 3.4 0 1 0 -3.4 0Z",
                                      "M-3 -3H3V3H-3Z",
                                      "M0 -4L3.9 3H-3.9Z",
                                      "M0 -4.3L4.3 0L0 4.3L-4.3 0Z",
                                      "M0 4L3.9 -3H-3.9Z",
                                      "M-1.2 -4H1.2V-1.2H4V1.2H1.2V4H-1.2V1.2H-4V-1.2H-1.2Z",
                                      "M-4.2 -1.6V1.6H4.2V-1.6Z",
                                      "M-1.6 -4.2H1.6V4.2H-1.6Z"};

const char *style_colour(size_t index)
{
    return line_colours[index % COUNT(line_colours)];
}

void style_line(size_t index, char attributes[STYLE_TEXT_MAX])
{
    const char *dash = dashes[index % COUNT(dashes)];
    (void)snprintf(
        attributes, STYLE_TEXT_MAX,
        "fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-linejoin=\"round\"%s%s%s",
        style_colour(index), *dash ? " stroke-dasharray=\"" : "", dash, *dash ? "\"" : "");
}

void style_marker(struct svg *g, size_t index, double x, double y)
{
    str_append(g->out, "<path transform=\"translate(");
    svg_number(g, x);
    str_append_char(g->out, ' ');
    svg_number(g, y);
    str_printf(g->out, ")\" d=\"%s\" fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.9\"/>\n",
               markers[index % COUNT(markers)], style_colour(index));
}

void style_key(struct svg *g, size_t index, double x, double y)
{
    char attributes[STYLE_TEXT_MAX];
    style_line(index, attributes);
    svg_line(g, x, y, x + STYLE_KEY_PX, y, attributes);
    style_marker(g, index, x + STYLE_KEY_PX / 2.0, y);
}

static size_t hatch_of(size_t index)
{
    /* Different hatches for adjacent indices and for areas of the same colour. */
    return (2 * index + index / COUNT(face_colours)) % COUNT(hatches);
}

void style_define_face(struct svg *g, size_t index)
{
    const char *hatch = hatches[hatch_of(index)];
    if (!hatch)
        return;
    str_printf(g->out,
               "<defs><pattern id=\"%s-face-%zu\" width=\"5\" height=\"5\" "
               "patternUnits=\"userSpaceOnUse\"><rect width=\"5\" height=\"5\" fill=\"%s\"/>"
               "<path d=\"%s\" fill=\"none\" stroke=\"#000\" stroke-opacity=\"0.55\" "
               "stroke-width=\"0.8\"/></pattern></defs>\n",
               g->id, index, face_colours[index % COUNT(face_colours)], hatch);
}

void style_face(const struct svg *g, size_t index, char attributes[STYLE_TEXT_MAX])
{
    if (hatches[hatch_of(index)])
        (void)snprintf(attributes, STYLE_TEXT_MAX, "fill=\"url(#%s-face-%zu)\"", g->id, index);
    else
        (void)snprintf(attributes, STYLE_TEXT_MAX, "fill=\"%s\"",
                       face_colours[index % COUNT(face_colours)]);
}
