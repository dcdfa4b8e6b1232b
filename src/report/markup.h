/* Texts inside of HTML and SVG. */
#pragma once
#include "base/str.h"

/*
 * Appends a text of whoever's as text: what would be markup is escaped, so that it may stand
 * between tags and between double quotes; what XML has no place for (control characters, broken
 * UTF-8) becomes U+FFFD.
 */
void markup_text(struct str *out, const char *text);
