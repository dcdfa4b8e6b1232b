/*
 * Drawing, as SVG. One picture at a time is appended to a text; each is whole by itself, with its
 * fonts and hatches in it, so that it may be cut out of a page and put into another. It has a title
 * and a description for whoever cannot see it. Numbers have one digit after the point; what is no
 * number becomes 0, so that no picture is broken by a value.
 *
 * `attributes` are markup of the program's own ("stroke=\"#000\""), never a user's; texts
 * may be anybody's.
 */
#pragma once
#include "base/str.h"

enum { SVG_FONT_PX = 12, SVG_SMALL_PX = 11 };

#define SVG_INK   "#1a1a1a" /* of texts */
#define SVG_FAINT "#5c5c5c" /* of what explains: 6:1 against white */
#define SVG_RULE  "#8a8a8a" /* axes */
#define SVG_GRID  "#e4e4e4"

struct svg {
    struct str *out; /* borrowed */
    const char *id;  /* unique on a page: hatches are named after it */
    bool path_has_point;
};

/* `id` is borrowed until svg_end(). */
void svg_begin(struct svg *g, struct str *out, const char *id, double width, double height,
               const char *title, const char *description);
void svg_end(struct svg *g);

void svg_number(struct svg *g, double value);
void svg_line(struct svg *g, double x1, double y1, double x2, double y2, const char *attributes);
void svg_rect(struct svg *g, double x, double y, double width, double height,
              const char *attributes);
/* A rectangle that is not drawn, and says `about` when it is pointed at. */
void svg_tip(struct svg *g, double x, double y, double width, double height, const char *about);
/* The baseline begins at x, y; ends or is centred there with a text-anchor among the attributes. */
void svg_text(struct svg *g, double x, double y, const char *attributes, const char *text);
/* The same, cut to about that width, with an ellipsis then. */
void svg_text_within(struct svg *g, double x, double y, const char *attributes, const char *text,
                     double width_px);

/* Points joined by lines, or closed into a face. */
void svg_path_begin(struct svg *g);
void svg_path_to(struct svg *g, double x, double y);
void svg_path_close(struct svg *g);
void svg_path_end(struct svg *g, const char *attributes);

/* About how wide a text is in the font of the pictures: for layouts, a little too much. */
double svg_text_width(const char *text, double font_px);
