/*
 * Latency of a service's requests, from the service's own reports (abi/control.h). The supervisor
 * counts the requests of each of the last ten seconds. All times are boot-clock times.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/supervisor/control_socket.h"

enum {
    LATENCY_SECONDS = 11,                       /* the current second and ten whole seconds */
    LATENCY_WINDOW_MS = LATENCY_SECONDS * 1000, /* largest age of a request in a measurement */
    LATENCY_EVERY_MS = 200,                     /* shortest interval between two notices */
    LATENCY_SOFT_MS = 5000,                     /* age at which a measurement over 5 s is stale */
    LATENCY_HARD_MS = 10000,                    /* age at which a measurement over 10 s is stale */
};

#define LATENCY_PERCENTILE 99.0 /* percentile for a service without an SLO */

/* Counts of requests; initialised with zeros. */
struct latency {
    /* second of each entry's counts, stored at index second % LATENCY_SECONDS */
    int64_t second[LATENCY_SECONDS];
    uint32_t counts[LATENCY_SECONDS][CONTROL_LATENCY_PLACES];
    int64_t told_ms;    /* time of the last notice; 0: never */
    uint64_t target_us; /* times above it are late; 0: no target. Set by the owner */
    uint64_t answered, late;
};

/* Counts the lines of a report. Returns false, without counting any, if a line is malformed. */
bool latency_report(struct latency *l, const char *lines, size_t length, int64_t now_ms);
/* Computes the percentile over the last 5 and 10 s, including the current second; 0 without
 * requests. Assumes that the requests of one bucket are spread evenly; a bucket that contains the
 * target is late if the target lies in its lower half. */
void latency_measure(const struct latency *l, double percentile, int64_t now_ms,
                     struct control_latency *ret);
/* Returns whether a notice is due; if so, the notice counts as sent. */
bool latency_is_due(struct latency *l, int64_t now_ms);
