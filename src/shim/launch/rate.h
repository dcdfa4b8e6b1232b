/*
 * The rate: a task's own GPU time, by the costs of its launches and counted for its part of the
 * SMs, follows a granted part of the wall time. Launches draw on a budget that fills at a speed,
 * and wait when it is overdrawn; every 100 ms a PI controller sets the speed by what was used.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/sys/lock.h"

enum {
    RATE_PERIOD_MS = 100,
    RATE_BURST_MS = 20,      /* unused budget that is kept, in time at the granted rate */
    RATE_DEBT_MS_MAX = 2000, /* of wall time: longer launches are not paid for in full */
    RATE_FULL = 1000000,     /* a speed of 1 */
};

struct rate {
    struct lock lock;
    uint64_t filled_ns; /* when the budget was last filled; 0: never */
    int64_t budget_ns;  /* of GPU time; below 0: overdrawn */
    uint64_t speed;     /* of filling, in parts of RATE_FULL */
    uint64_t period_ns; /* when the period began */
    uint64_t used_ns;   /* GPU time in it */
    bool is_held;       /* a launch had to wait in it */
    int64_t integral;
};

/* What happened in the periods that have ended. */
struct rate_report {
    uint32_t periods;
    uint64_t error_permille; /* summed over them */
};

/* Charges a launch at the time now_ns; returns how long it has to wait. One of a signal's handler
 * that came while this thread was here is not charged. */
uint64_t rate_charge(struct rate *rate, uint64_t now_ns, uint64_t cost_ns,
                     uint32_t granted_permille, struct rate_report *ret_report);
