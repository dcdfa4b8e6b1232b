/*
 * The rate: the shim limits a task's GPU time to a granted part of the wall time. GPU time is the
 * cost of the task's launches, weighted by the task's part of the SMs. Launches draw on a budget
 * that fills at a variable speed, and wait while the budget is overdrawn. Every 100 ms a PI
 * controller adjusts the speed according to the used GPU time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "shim/sys/lock.h"

enum {
    RATE_PERIOD_MS = 100,
    RATE_BURST_MS = 20, /* largest unused budget, as time at the granted rate */
    /* Largest overdraft, as wall time: a longer launch is not charged in full. */
    RATE_DEBT_MS_MAX = 2000,
    RATE_FULL = 1000000, /* speed of the full device */
};

struct rate {
    struct lock lock;
    uint64_t filled_ns; /* time of the latest filling of the budget; 0: never */
    int64_t budget_ns;  /* budget of GPU time; below 0: overdrawn */
    uint64_t speed;     /* speed of filling, in parts of RATE_FULL */
    uint64_t period_ns; /* start of the present period of 100 ms */
    uint64_t used_ns;   /* GPU time used in the period */
    bool is_held;       /* a launch had to wait in the period */
    int64_t integral;
};

/* The periods that have ended since the last report. */
struct rate_report {
    uint32_t periods;
    uint64_t error_permille; /* sum of the periods' control errors */
};

/* Charges a launch at the time now_ns. Returns the time that the launch has to wait. A launch in a
 * signal handler that interrupted this function in the same thread is not charged. */
uint64_t rate_charge(struct rate *rate, uint64_t now_ns, uint64_t cost_ns,
                     uint32_t granted_permille, struct rate_report *ret_report);
