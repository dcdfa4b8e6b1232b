/* Text inside HTML and SVG. */
#pragma once
#include "base/str.h"

/*
 * Appends an untrusted text, escaped for use between tags and between double quotes. Characters
 * that XML does not allow (control characters, broken UTF-8) become U+FFFD.
 */
void markup_text(struct str *out, const char *text);
