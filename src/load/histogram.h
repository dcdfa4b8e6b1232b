/*
 * A histogram of times with a constant relative error. Times below 64 ns have a bucket each; above
 * 64 ns, every power of two is divided into 64 buckets, so that the middle of a bucket differs from
 * each of its times by less than 0.8 %. Count, least, greatest and sum are exact. A struct
 * histogram is plain data of a fixed size; a zeroed one is empty.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_PART_BITS = 6,
    HISTOGRAM_LARGEST_BIT = 43, /* times of 2^44 ns (4.9 h) and more count as 2^44 - 1 ns */
    HISTOGRAM_BUCKETS = (HISTOGRAM_LARGEST_BIT - HISTOGRAM_PART_BITS + 2) << HISTOGRAM_PART_BITS,
};

struct histogram {
    uint64_t count;
    int64_t least_ns, most_ns; /* 0 while empty */
    double sum_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Adds a time; a negative time counts as 0. */
void histogram_add(struct histogram *h, int64_t ns);
/* Adds all times of `from`. */
void histogram_merge(struct histogram *h, const struct histogram *from);
/* Returns the time that the fraction `part` (0 to 1) of all times does not exceed; 0 while
 * empty. */
int64_t histogram_quantile(const struct histogram *h, double part);
double histogram_mean(const struct histogram *h);
/* Returns the bounds of a bucket: all of its times are at least the low and below the high
 * bound. */
int64_t histogram_low(size_t bucket);
int64_t histogram_high(size_t bucket);
