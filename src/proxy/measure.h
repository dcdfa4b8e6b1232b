/*
 * Counts of latencies that were not reported yet, and the packets that report them to the
 * supervisor (abi/control.h).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/control.h"

enum {
    MEASURE_LINE_MAX = 24, /* bytes of one line of a packet */
    MEASURE_PACKET_MAX = 16 + CONTROL_LATENCY_PLACES * MEASURE_LINE_MAX,
};

struct measure {
    uint32_t counts[CONTROL_TIMES][CONTROL_LATENCY_PLACES];
    uint64_t waiting[CONTROL_TIMES]; /* sum of the counts */
};

/* Counts `count` times of `us` each. A negative time counts as 0. */
void measure_add(struct measure *m, enum control_time time, int64_t us, uint32_t count);
/* Counts times that are spread evenly from low_us to high_us; equal limits are one time. */
void measure_spread(struct measure *m, enum control_time time, uint64_t low_us, uint64_t high_us,
                    uint32_t count);
/* Writes the packet for one kind of time. Returns its length; 0: no time was counted. */
size_t measure_write(const struct measure *m, enum control_time time,
                     char packet[MEASURE_PACKET_MAX]);
/* Forgets the counts of one kind, which were reported. */
void measure_clear(struct measure *m, enum control_time time);
