/*
 * Drawing as SVG. Pictures are appended to a text one at a time. Each picture is self-contained,
 * with its fonts and hatches, and can be copied into another page. A picture has a title and a
 * description for screen readers. Numbers have one decimal; NaN and infinity become 0, so no value
 * breaks a picture.
 *
 * `attributes` are trusted markup ("stroke=\"#000\""), never a user's text; other texts may be
 * untrusted.
 */
#pragma once
#include "base/str.h"

enum { SVG_FONT_PX = 12, SVG_SMALL_PX = 11 };

#define SVG_INK   "#1a1a1a" /* text */
#define SVG_FAINT "#5c5c5c" /* explanations; contrast 6:1 on white */
#define SVG_RULE  "#8a8a8a" /* axes */
#define SVG_GRID  "#e4e4e4"

struct svg {
    struct str *out; /* borrowed */
    const char *id;  /* unique on a page; prefix of the hatches' names */
    bool path_has_point;
};

/* Borrows `id` until svg_end(). */
void svg_begin(struct svg *g, struct str *out, const char *id, double width, double height,
               const char *title, const char *description);
void svg_end(struct svg *g);

void svg_number(struct svg *g, double value);
void svg_line(struct svg *g, double x1, double y1, double x2, double y2, const char *attributes);
void svg_rect(struct svg *g, double x, double y, double width, double height,
              const char *attributes);
/* Adds an invisible rectangle that shows `about` on hover. */
void svg_tip(struct svg *g, double x, double y, double width, double height, const char *about);
/* Writes text whose baseline starts at x, y. With a text-anchor in the attributes, the text ends or
 * is centred at that point. */
void svg_text(struct svg *g, double x, double y, const char *attributes, const char *text);
/* Like svg_text, truncated with an ellipsis to about this width. */
void svg_text_within(struct svg *g, double x, double y, const char *attributes, const char *text,
                     double width_px);

/* Draw points joined by lines, or closed into an area. */
void svg_path_begin(struct svg *g);
void svg_path_to(struct svg *g, double x, double y);
void svg_path_close(struct svg *g);
void svg_path_end(struct svg *g, const char *attributes);

/* Estimates the width of a text in the pictures' font, slightly too high, for layouts. */
double svg_text_width(const char *text, double font_px);
