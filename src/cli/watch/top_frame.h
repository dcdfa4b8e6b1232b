/*
 * One frame of `gpumux top`: devices with bars, then workloads. The frame is drawn through a sink,
 * so that the full-screen display, --once and the tests get the same text.
 */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "cli/frame/output.h"

enum top_sort { TOP_BY_STATE, TOP_BY_MEMORY, TOP_BY_CPU, TOP_SORT_END };

struct top_view {
    const json_t *nodes;     /* response of GET /v1/nodes */
    const json_t *workloads; /* array of workloads */
    const char *policy;
    size_t width;  /* columns; longer lines are cut */
    size_t height; /* lines; 0: no limit */
    size_t scroll; /* number of workloads scrolled past at the top */
    enum top_sort sort;
    bool utf8;
    const char *trouble; /* reason why the data is stale; NULL: current */
    int64_t now_wall_ms;
};

struct top_sink {
    void *arg;
    void (*put)(void *arg, enum output_colour colour, const char *text);
    void (*end_line)(void *arg);
};

/* Draws the frame. Returns the number of its lines. */
size_t top_draw(const struct top_view *view, const struct top_sink *sink);
