/*
 * One frame of `gpumux top`: devices with bars, then workloads. Drawn through a sink, so that the
 * full-screen display, --once and the tests get the same.
 */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "cli/frame/output.h"

enum top_sort { TOP_BY_STATE, TOP_BY_MEMORY, TOP_BY_CPU, TOP_SORT_END };

struct top_view {
    const json_t *nodes;     /* as GET /v1/nodes answers */
    const json_t *workloads; /* an array of them */
    const char *policy;
    size_t width;  /* columns; longer lines are cut */
    size_t height; /* lines; 0: as many as it takes */
    size_t scroll; /* workloads left out at the top */
    enum top_sort sort;
    bool utf8;
    const char *trouble; /* why this is old news, or NULL */
    int64_t now_wall_ms;
};

struct top_sink {
    void *arg;
    void (*put)(void *arg, enum output_colour colour, const char *text);
    void (*end_line)(void *arg);
};

/* Returns how many lines it took. */
size_t top_draw(const struct top_view *view, const struct top_sink *sink);
