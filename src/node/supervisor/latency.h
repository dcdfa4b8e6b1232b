/*
 * How long the requests of a service take, by its own word: it reports them in packets (abi/control.h), of as
 * many as it likes. Kept by the second, for the last ten; all times are the boot clock's.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/supervisor/control_socket.h"

enum {
    LATENCY_SECONDS = 11, /* the present one, and ten whole ones */
    LATENCY_WINDOW_MS =
        LATENCY_SECONDS * 1000, /* no request of a measurement was answered before */
    LATENCY_EVERY_MS = 200,     /* how often what follows is told at most */
    LATENCY_SOFT_MS = 5000,     /* a measurement of 5 s says nothing any more when it is that old */
    LATENCY_HARD_MS = 10000,    /* and one of 10 s */
};

#define LATENCY_PERCENTILE 99.0 /* of a service without an SLO */

/* Zeros are a good beginning. */
struct latency {
    int64_t
        second[LATENCY_SECONDS]; /* that the counts are of; by its number modulo LATENCY_SECONDS */
    uint32_t counts[LATENCY_SECONDS][CONTROL_LATENCY_PLACES];
    int64_t told_ms; /* 0: never */
};

/* Takes the lines of a report. False: it is none, and nothing was taken. */
bool latency_report(struct latency *l, const char *lines, size_t length, int64_t now_ms);
/* The percentile over the last 5 and 10 s, this second included. Within a place, requests are taken to be
 * spread evenly; 0 where there were none. */
void latency_measure(const struct latency *l, double percentile, int64_t now_ms,
                     struct control_latency *ret);
/* Whether it is time to tell; if so, it is told now. */
bool latency_is_due(struct latency *l, int64_t now_ms);
