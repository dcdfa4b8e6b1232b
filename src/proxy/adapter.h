/*
 * Turns the metrics page of a server into latencies.
 *
 * The page has cumulative counts since the server's start: histograms (the number of requests up to
 * each bound) or summaries (quantiles, and the number of requests). The difference of two
 * successive pages is what happened in between. The requests of a bucket are spread evenly over the
 * bucket. Requests above the last bound count as that bound, so that a target above the bound is
 * never missed. Counts that decrease mean that the server started again. The series of a name
 * (models, engines) are added up.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/control.h"
#include "proxy/measure.h"
#include "proxy/prometheus.h"

enum adapter_kind {
    ADAPTER_AUTO, /* any of the servers below */
    ADAPTER_VLLM,
    ADAPTER_SGLANG,
    ADAPTER_TRITON,
    ADAPTER_PROMETHEUS, /* the histogram that the description names */
    ADAPTER_KINDS
};

enum {
    ADAPTER_BUCKETS_MAX = 64,  /* of one histogram; more are ignored */
    ADAPTER_SERIES_MAX = 32,   /* of one summary; more are ignored */
    ADAPTER_QUANTILES_MAX = 8, /* of one summary */
    ADAPTER_SOURCES_MAX = 12,  /* metrics of all servers */
    ADAPTER_METRIC_MAX = 128,  /* bytes with NUL of a metric's name */
    ADAPTER_EMPTY_PAGES = 5,   /* pages without a known metric until the adapter says so */
};

struct histogram {
    bool present;    /* on the current page */
    bool has_before; /* on an earlier page */
    size_t count;
    double bounds[ADAPTER_BUCKETS_MAX]; /* ascending; the last may be infinite */
    double now[ADAPTER_BUCKETS_MAX], before[ADAPTER_BUCKETS_MAX];
};

struct summary_series {
    uint64_t series;
    bool present, has_before;
    double now, before; /* number of requests */
    size_t count;
    double quantiles[ADAPTER_QUANTILES_MAX], values[ADAPTER_QUANTILES_MAX]; /* ascending */
};

struct summary {
    size_t count;
    struct summary_series series[ADAPTER_SERIES_MAX];
};

struct adapter {
    enum adapter_kind kind;
    char metric[ADAPTER_METRIC_MAX];
    double metric_us; /* microseconds of the metric's unit */
    struct histogram histograms[ADAPTER_SOURCES_MAX];
    struct summary summary; /* only Triton has one */
    int empty_pages;        /* in a row, without a metric of this adapter */
    bool page_has_triton;   /* the page is Triton's, with or without latencies */
    bool has_found;         /* some page had a metric of this adapter */
    bool noted_absent, noted_beyond;
    char note[CONTROL_NOTE_MAX];
    size_t line_length; /* of the line that is not complete; beyond the maximum: skipped */
    char line[PROMETHEUS_LINE_MAX];
};

/* Returns -1 for an unknown name. */
int adapter_kind_parse(const char *name);
/* `metric`: name of the histogram for ADAPTER_PROMETHEUS, at most ADAPTER_METRIC_MAX - 1 bytes; its
 * unit follows from the name's end: seconds, unless the name ends in _milliseconds, _ms,
 * _microseconds or _us. */
void adapter_init(struct adapter *a, enum adapter_kind kind, const char *metric);
/* Begins a page; an unfinished page before it is forgotten. */
void adapter_begin(struct adapter *a);
void adapter_feed(struct adapter *a, const char *bytes, size_t length);
/* Ends the page: counts what happened since the page before. Returns a sentence about what the
 * adapter cannot know, each once; NULL: none. */
const char *adapter_end(struct adapter *a, struct measure *m);
