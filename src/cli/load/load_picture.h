/* The picture of gpumux load: latency and rates over time, and the distribution of the latency. */
#pragma once
#include "cli/load/load_plan.h"

/* Appends a complete SVG document. Check str_failed(out). */
void load_draw_picture(const struct load_plan *p, struct str *out);
