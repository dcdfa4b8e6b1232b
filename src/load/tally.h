/*
 * The results of a run: counts, histograms, and a timeline. Pure: the caller passes every time, in
 * ns since the start of the run. Each request is named by the time at which it was due. Latency
 * counts from that time, so that a server that stalls cannot hide the requests that waited.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "load/histogram.h"

enum {
    TALLY_SLOS_MAX = 8,
    TALLY_SLICES_MAX = 160,
    TALLY_SLICE_NS = 100000000, /* first length of a slice; doubles when the slices are used up */
    TALLY_LATE_NS = 1000000,    /* a request sent later than this after its due time is late */
    TALLY_STATUSES = 600,
};

enum tally_cause {
    TALLY_STATUS,      /* answered with a status other than 2xx */
    TALLY_CONNECT,     /* no connection could be opened */
    TALLY_BROKEN,      /* the connection broke before the end of the answer */
    TALLY_PROTOCOL,    /* the answer is not HTTP */
    TALLY_TIMEOUT,     /* no complete answer within the timeout after the due time */
    TALLY_DROPPED,     /* the queue of waiting requests was full; never sent */
    TALLY_INTERRUPTED, /* the user ended the run */
    TALLY_CAUSE_END
};

/* A target: the percentile of the latencies is at most the limit. A failed request misses it. */
struct tally_slo {
    double percentile; /* above 0, at most 100 */
    int64_t limit_ns;
    uint64_t met; /* requests within the limit */
};

/* A part of the run; a request belongs to the slice in which it was due. */
struct tally_slice {
    uint64_t due, failed;
    uint64_t answered_in; /* answers that arrived during the slice */
    struct histogram latency;
};

struct tally {
    int64_t warmup_ns; /* requests due before are counted in `warmup` alone */
    size_t slo_count;
    struct tally_slo slos[TALLY_SLOS_MAX];

    uint64_t warmup, due, sent, answered, late, failed[TALLY_CAUSE_END];
    uint64_t statuses[TALLY_STATUSES]; /* answers by status, of all statuses */
    uint64_t bytes, chunks;            /* of bodies with status 2xx; chunks only of streams */
    int64_t first_due_ns, last_due_ns, last_answer_ns;
    struct histogram latency; /* due → end of the answer, of answered requests */
    struct histogram wait;    /* due → sent */
    struct histogram lag;     /* due → noticed by the generator: its own delay */
    struct histogram first;   /* due → first byte or event of a stream */
    struct histogram gap;     /* between two chunks or events of a stream */

    int64_t slice_ns;
    struct tally_slice *slices; /* owned; TALLY_SLICES_MAX */
};

/* Parses "p99<=20ms", or several targets separated by commas, into `slos`. */
int tally_parse_slos(struct error *e, const char *text, struct tally_slo slos[TALLY_SLOS_MAX],
                     size_t *ret_count);

/* Returns 0 or -ERR_NO_MEMORY. */
int tally_init(struct error *e, int64_t warmup_ns, struct tally *t);
void tally_done(struct tally *t);

/* Each request is due once, sent at most once, and then answered or failed, once. */
void tally_due(struct tally *t, int64_t due_ns, int64_t now_ns);
void tally_sent(struct tally *t, int64_t due_ns, int64_t now_ns);
void tally_answered(struct tally *t, int64_t due_ns, int64_t now_ns, int status, uint64_t bytes);
void tally_failed(struct tally *t, int64_t due_ns, int64_t now_ns, enum tally_cause cause,
                  int status);
/* Counts a chunk of a stream. last_ns: time of the chunk before, -1 for the first chunk. */
void tally_chunk(struct tally *t, int64_t due_ns, int64_t last_ns, int64_t now_ns);

uint64_t tally_failures(const struct tally *t);
/* Returns the fraction of all requests that met the target; 1 without requests. */
double tally_attainment(const struct tally *t, const struct tally_slo *slo);
bool tally_slo_is_met(const struct tally *t, const struct tally_slo *slo);
/* Returns the number of slices up to the end of the run. */
size_t tally_slice_count(const struct tally *t);
const char *tally_cause_name(enum tally_cause cause); /* a word, for JSON */
const char *tally_cause_text(enum tally_cause cause); /* for people */
