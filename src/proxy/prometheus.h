/*
 * Reader of Prometheus's text format, version 0.0.4, and of what OpenMetrics adds to its lines: one
 * line at a time, without memory of its own.
 *
 *   NAME{LABEL="VALUE",…} NUMBER [TIMESTAMP] [# EXEMPLAR]
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROMETHEUS_LINE_MAX = 8 << 10, /* bytes of a line; longer lines are skipped */
    PROMETHEUS_NUMBER_MAX = 64,
};

struct prometheus_sample {
    const char *name; /* in the line */
    size_t name_length;
    double bound;    /* the label "le" of a histogram's bucket; NaN: absent */
    double quantile; /* the label "quantile" of a summary; NaN: absent */
    uint64_t series; /* hash of the other labels */
    double value;
};

/* Parses a line without its end. Returns false for a comment, an empty line and anything else that
 * is no sample. */
bool prometheus_parse(const char *line, size_t length, struct prometheus_sample *ret);
