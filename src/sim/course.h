/*
 * Course of a run over time: means over at most RESULT_SERIES_MAX intervals. When a run outlasts
 * the intervals, the course merges each pair of intervals.
 */
#pragma once
#include "sim/result.h"

/* Activity of the cluster until the next change. */
struct course_now {
    double sm, dram, memory; /* sums over devices */
    double running, waiting;
};

/* Plain data; zero-initialized except width_s. */
struct course {
    double width_s, now_s;
    struct course_now now;
    size_t count;
    struct result_point sums[RESULT_SERIES_MAX]; /* integrals over time; requests: counts */
    struct course_now total;                     /* integrals since the start */
};

void course_init(struct course *c);
/* Advances the time to `until_s` with the activity unchanged. */
void course_pass(struct course *c, double until_s);
void course_count_requests(struct course *c, double requests, double late);
/* Writes the means to the result's points and summary. */
void course_finish(struct course *c, double end_s, size_t device_count, struct result *r);
