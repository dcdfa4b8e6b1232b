/*
 * Latency of a service's requests, as the service reports it in packets (abi/control.h). Counts are
 * kept for each of the last ten seconds. All times are of the boot clock.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/supervisor/control_socket.h"

enum {
    LATENCY_SECONDS = 11,                       /* the current second and ten whole ones */
    LATENCY_WINDOW_MS = LATENCY_SECONDS * 1000, /* all requests of a measurement are younger */
    LATENCY_EVERY_MS = 200,                     /* least interval between two notices */
    LATENCY_SOFT_MS = 5000,                     /* age at which a measurement over 5 s is stale */
    LATENCY_HARD_MS = 10000,                    /* the same for 10 s */
};

#define LATENCY_PERCENTILE 99.0 /* of a service without an SLO */

/* Initialised by zeros. */
struct latency {
    int64_t second
        [LATENCY_SECONDS]; /* that the counts belong to; index: the second modulo LATENCY_SECONDS */
    uint32_t counts[LATENCY_SECONDS][CONTROL_LATENCY_PLACES];
    int64_t told_ms; /* 0: never */
};

/* Takes the lines of a report. false: malformed, and nothing was taken. */
bool latency_report(struct latency *l, const char *lines, size_t length, int64_t now_ms);
/* The percentile over the last 5 and 10 s, including the current second; 0 without requests.
 * Assumes that the requests in one bucket are spread evenly. */
void latency_measure(const struct latency *l, double percentile, int64_t now_ms,
                     struct control_latency *ret);
/* A notice is due. Counts as sent if so. */
bool latency_is_due(struct latency *l, int64_t now_ms);
