/*
 * How lines and faces are told apart: by the colours of Okabe and Ito, which colour-blind
 * people can tell apart, and always by dashes and markers, or by hatches, as well, for whoever
 * prints in grey.
 */
#pragma once
#include "report/svg.h"

enum { STYLE_TEXT_MAX = 160 };

/* The attributes of line number `index`. No two below 100 look alike, with their markers. */
void style_line(size_t index, char attributes[STYLE_TEXT_MAX]);
const char *style_colour(size_t index);
void style_marker(struct svg *g, size_t index, double x, double y);
/* What to look for in a legend: a piece of the line with its marker, from x to x + STYLE_KEY_PX. */
enum { STYLE_KEY_PX = 28 };
void style_key(struct svg *g, size_t index, double x, double y);

/* To be called once for each face that a picture uses, before it does. */
void style_define_face(struct svg *g, size_t index);
/* The attributes of a face. */
void style_face(const struct svg *g, size_t index, char attributes[STYLE_TEXT_MAX]);
