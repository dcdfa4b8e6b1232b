/*
 * Counts of a service's answered and late requests: over the last minute, 10 minutes and hour, and
 * since the attempt started; and the counts of each of the last 60 minutes.
 *
 * Pure: no clock. Plain data, zero at first. The agent adds the counts of each look, and forgets
 * the counts of earlier minutes when it restarts.
 */
#pragma once
#include "model/node.h"

enum {
    ATTAINMENT_STEP_MS = 5000, /* precision of the last minute */
    ATTAINMENT_STEPS = 12,
};

struct attainment_slot {
    uint32_t answered, late; /* saturate */
};

struct attainment {
    int64_t first_ms;     /* time of the first count; 0: none yet */
    int64_t step, minute; /* numbers of the newest slots */
    struct attainment_slot steps[ATTAINMENT_STEPS], minutes[ATTAINMENT_MINUTES];
    struct attainment_count all;
};

/* Adds requests that were answered shortly before now_ms. The time must not be 0 or decrease. The
 * first call adds to the sum since the start only, because an agent that restarted does not know
 * when these requests were answered. `late` is at most `answered`. */
void attainment_add(struct attainment *a, int64_t now_ms, uint64_t answered, uint64_t late);
/* Sets the counts in *ret: minute, ten_minutes, hour, all, and the lists of minutes. A period of N
 * minutes consists of the present minute, which is not complete, and the N - 1 minutes before. */
void attainment_read(const struct attainment *a, int64_t now_ms, struct attempt_control *ret);
