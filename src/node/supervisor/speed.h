/*
 * How fast an attempt is, by its own word: it reports how many samples it has done so far.
 *
 * A measurement spans SPEED_SPAN_MS or more, from one report to a later one, so that there is at
 * most one a second however often the program reports. All times are the boot clock's.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    SPEED_SPAN_MS = 1000,
    SPEED_FRESH_MS = 30000, /* an older measurement says nothing about now */
};

struct speed {
    bool begun;
    uint64_t samples; /* at the report that the next measurement starts from */
    int64_t at_ms;
};

/* Takes a report. True: it completes a measurement, *ret_samples_per_s. A count that is lower than
 * before (the program went back to a checkpoint) starts anew. */
bool speed_report(struct speed *s, uint64_t samples, int64_t now_ms, double *ret_samples_per_s);
