/*
 * Speed of an attempt, from the attempt's own reports of the samples processed so far.
 *
 * A measurement spans SPEED_SPAN_MS or more, from one report to a later report. A measurement
 * therefore completes at most once per second, however often the program reports. All times are
 * boot-clock times.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    SPEED_SPAN_MS = 1000,
    SPEED_FRESH_MS = 30000, /* age at which a measurement is stale */
};

struct speed {
    bool begun;
    uint64_t samples; /* samples at the start of the next measurement */
    int64_t at_ms;
};

/* Takes a report. Returns true if the report completes a measurement, *ret_samples_per_s. A smaller
 * count than before (the program returned to a checkpoint) restarts the measurement. */
bool speed_report(struct speed *s, uint64_t samples, int64_t now_ms, double *ret_samples_per_s);
