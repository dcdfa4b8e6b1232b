/*
 * Styles that distinguish lines and areas: the colours of Okabe and Ito, which colour-blind people
 * can distinguish, always combined with dashes and markers or with hatches, for prints in grey.
 */
#pragma once
#include "report/svg.h"

enum { STYLE_TEXT_MAX = 160 };

/* Writes the attributes of line number `index`. Any two indices below 100 differ in line or
 * marker. */
void style_line(size_t index, char attributes[STYLE_TEXT_MAX]);
const char *style_colour(size_t index);
void style_marker(struct svg *g, size_t index, double x, double y);
/* Draws the key of a legend: a piece of the line with its marker, from x to x + STYLE_KEY_PX. */
enum { STYLE_KEY_PX = 28 };
void style_key(struct svg *g, size_t index, double x, double y);

/* Defines the style of an area; call once per style before its first use in a picture. */
void style_define_face(struct svg *g, size_t index);
/* Writes the attributes of an area. */
void style_face(const struct svg *g, size_t index, char attributes[STYLE_TEXT_MAX]);
