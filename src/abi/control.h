/*
 * The commands by which a workload's programs report to the supervisor of their attempt. The client
 * library writes these commands; node/supervisor/control_socket.h reads them among the other
 * commands of the supervisor.
 *
 * GPUMUX_CONTROL names a unix SOCK_SEQPACKET socket. One packet is one command and has one reply,
 * in order: CONTROL_OK, or "error" and a sentence. A supervisor has room for few connections: a
 * new connection may end the one that has been silent for the longest time.
 *
 *   ready                the service is ready
 *   progress SAMPLES     number of samples that this attempt has processed so far, decimal
 *   latency              latencies of the requests that a service answered since its last report:
 *   MICROSECONDS COUNT   one line each, at most CONTROL_LATENCIES_MAX lines; the newline of the
 *   …                    last line is optional
 *   first                times from a request to the first byte of its answer's body, in lines as
 *   …                    for latency
 *   between              times between two successive pieces of an answer that is a stream (tokens,
 *   …                    events), in lines as for latency
 *   note                 a sentence for the workload's output: at most CONTROL_NOTE_MAX bytes
 *   SENTENCE
 *   advice USED BATCH    the newest advice that the program has followed, and the batch size that
 *                        it used last, decimal; 0: none. The reply "ok SEQUENCE BATCH CHECKPOINTS"
 *                        is the newest advice: the batch size to use, 0: none, and the number of
 *                        checkpoints requested so far. An older supervisor replies "error"
 *
 * A report counts latencies in the buckets ("places") of a logarithmic scale, 16 places for each
 * doubling. The length of a report thus does not depend on the number of requests, and the error of
 * a latency is below 7 percent: see control_latency_place().
 */
#pragma once
#include <stdint.h>

#define CONTROL_WORD_READY    "ready"
#define CONTROL_WORD_PROGRESS "progress"
#define CONTROL_WORD_LATENCY  "latency"
#define CONTROL_WORD_FIRST    "first"
#define CONTROL_WORD_BETWEEN  "between"
#define CONTROL_WORD_NOTE     "note"
#define CONTROL_WORD_ADVICE   "advice"
#define CONTROL_OK            "ok"
/* Largest count of samples; a double represents all counts up to this one exactly. */
#define CONTROL_SAMPLES_MAX UINT64_C(1000000000000000)

enum {
    CONTROL_REPLY_MAX = 256,
    CONTROL_NOTE_MAX = 512,
    /* Places for latencies up to four minutes; the last place also counts longer latencies. */
    CONTROL_LATENCY_PLACES = 400,
    CONTROL_LATENCIES_MAX = CONTROL_LATENCY_PLACES,
    /* Places per doubling; each latency below this number of microseconds has a place of its
     * own. */
    CONTROL_LATENCY_FINE = 16,
    CONTROL_LATENCY_FINE_BITS = 4,
};
#define CONTROL_REQUESTS_MAX UINT64_C(1000000000) /* largest COUNT in one line */

/* The kinds of times that a service reports, each under a word of its own. */
enum control_time { CONTROL_TIME_LATENCY, CONTROL_TIME_FIRST, CONTROL_TIME_BETWEEN, CONTROL_TIMES };

static inline const char *control_time_word(enum control_time time)
{
    return time == CONTROL_TIME_FIRST     ? CONTROL_WORD_FIRST
           : time == CONTROL_TIME_BETWEEN ? CONTROL_WORD_BETWEEN
                                          : CONTROL_WORD_LATENCY;
}

static inline unsigned control_latency_place(uint64_t us)
{
    if (us < CONTROL_LATENCY_FINE)
        return (unsigned)us;
    unsigned shift = 63 - (unsigned)__builtin_clzll(us) - CONTROL_LATENCY_FINE_BITS;
    uint64_t place =
        (uint64_t)(shift + 1) * CONTROL_LATENCY_FINE + ((us >> shift) & (CONTROL_LATENCY_FINE - 1));
    return place < CONTROL_LATENCY_PLACES ? (unsigned)place : CONTROL_LATENCY_PLACES - 1;
}

/* Returns the shortest latency of a place; for CONTROL_LATENCY_PLACES, the end of the last
 * place. */
static inline uint64_t control_latency_us(unsigned place)
{
    if (place < CONTROL_LATENCY_FINE)
        return place;
    unsigned shift = place / CONTROL_LATENCY_FINE - 1;
    return (uint64_t)(CONTROL_LATENCY_FINE + place % CONTROL_LATENCY_FINE) << shift;
}
