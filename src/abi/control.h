/*
 * What a workload's own programs may say to the supervisor of their attempt: the client library
 * writes these words, node/supervisor/control_socket.h reads them among its other commands.
 *
 * GPUMUX_CONTROL names a unix SOCK_SEQPACKET socket. One packet is one command and has one reply,
 * in order: CONTROL_OK, or "error" and a sentence.
 *
 *   ready              the service says that it is
 *   progress SAMPLES   how many samples this attempt has done so far, decimal
 *   latency            a service: how long requests took that were answered since the last
 *                      such report.
 *   MICROSECONDS COUNT One line each, at most CONTROL_LATENCIES_MAX, the last one's newline
 *   may be missing …
 *
 * Latencies are counted in places, 16 for each doubling of time, so that a count of many is as
 * short as one of few and wrong by less than 7 percent: see control_latency_place().
 */
#pragma once
#include <stdint.h>

#define CONTROL_WORD_READY    "ready"
#define CONTROL_WORD_PROGRESS "progress"
#define CONTROL_WORD_LATENCY  "latency"
#define CONTROL_OK            "ok"
#define CONTROL_SAMPLES_MAX   UINT64_C(1000000000000000) /* a double counts up to there exactly */

enum {
    CONTROL_REPLY_MAX = 256,
    CONTROL_LATENCY_PLACES = 400, /* up to four minutes; what took longer is in the last */
    CONTROL_LATENCIES_MAX = CONTROL_LATENCY_PLACES,
    CONTROL_LATENCY_FINE = 16, /* places of a doubling, and microseconds that have one each */
    CONTROL_LATENCY_FINE_BITS = 4,
};
#define CONTROL_REQUESTS_MAX UINT64_C(1000000000) /* in one line */

static inline unsigned control_latency_place(uint64_t us)
{
    if (us < CONTROL_LATENCY_FINE)
        return (unsigned)us;
    unsigned shift = 63 - (unsigned)__builtin_clzll(us) - CONTROL_LATENCY_FINE_BITS;
    uint64_t place =
        (uint64_t)(shift + 1) * CONTROL_LATENCY_FINE + ((us >> shift) & (CONTROL_LATENCY_FINE - 1));
    return place < CONTROL_LATENCY_PLACES ? (unsigned)place : CONTROL_LATENCY_PLACES - 1;
}

/* The shortest latency of a place; of CONTROL_LATENCY_PLACES: where the last one ends. */
static inline uint64_t control_latency_us(unsigned place)
{
    if (place < CONTROL_LATENCY_FINE)
        return place;
    unsigned shift = place / CONTROL_LATENCY_FINE - 1;
    return (uint64_t)(CONTROL_LATENCY_FINE + place % CONTROL_LATENCY_FINE) << shift;
}
