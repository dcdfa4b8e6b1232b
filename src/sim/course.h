/*
 * The course of a run over time, as means over at most RESULT_SERIES_MAX intervals: when it lasts
 * longer than they reach, each two become one.
 */
#pragma once
#include "sim/result.h"

/* What the cluster is doing from now on, until something changes. */
struct course_now {
    double sm, dram, memory; /* sums over devices */
    double running, waiting;
};

/* Plain data; all zero but width_s at first. */
struct course {
    double width_s, now_s;
    struct course_now now;
    size_t count;
    struct result_point sums[RESULT_SERIES_MAX]; /* integrals over time; requests: counts */
    struct course_now total;                     /* the same, from the beginning on */
};

void course_init(struct course *c);
/* Time passes up to `until_s` with the cluster as it is. */
void course_pass(struct course *c, double until_s);
void course_count_requests(struct course *c, double requests, double late);
/* Means into the result's points and summary. */
void course_finish(struct course *c, double end_s, size_t device_count, struct result *r);
