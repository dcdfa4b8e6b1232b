/*
 * An open-loop load generator: requests are due at the times of an arrival process, whether or not
 * the server keeps up. The folder contains the arrival processes, the request, the results, and the
 * loop that sends. Only load.c, connection.c and socket.c do I/O.
 *
 * A request that finds no free connection waits in a bounded queue, in order. Its latency counts
 * from its due time. A request that finds the queue full fails as dropped. The generator never
 * skips an arrival. The generator never repeats a request of which a byte was sent.
 *
 * Files of the folder load may include base, wire.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "load/arrivals.h"
#include "load/request.h"
#include "load/tally.h"

enum {
    LOAD_CONNECTIONS_MAX = 4096,
    LOAD_QUEUE_MAX = 1 << 22,
    /* The loop sleeps until this time before an arrival, and polls without sleeping from then on:
     * the price of a precise arrival is at most so much CPU time for each request. */
    LOAD_SPIN_NS = 60000,
};

struct load_config {
    const struct request_target *target;
    const char *request; /* the bytes of every request */
    size_t request_length;
    int connections;    /* largest number of connections */
    size_t queue;       /* largest number of waiting requests */
    int64_t timeout_ns; /* of a request, from its due time */
    bool is_stream;     /* measure the chunks of each answer */
    int stop_fd;        /* ends the run when readable; -1: none */
    /* Called about once per second; NULL: never. */
    void (*on_progress)(void *arg, int64_t now_ns, const struct tally *tally);
    void *arg;
};

/* The costs of a run, and whether stop_fd ended the run. */
struct load_cost {
    bool was_stopped;
    double wall_s, cpu_s;
    int connections_most; /* largest number of connections open at a time */
    uint64_t connects;
};

/*
 * Opens one connection, then runs until the last request is answered or failed. Returns 0,
 * -ERR_UNAVAILABLE or -ERR_DENIED (the first connection failed; no request was sent), -ERR_IO or
 * -ERR_NO_MEMORY.
 */
int load_run(struct error *e, const struct load_config *config, struct arrivals *arrivals,
             struct tally *tally, struct load_cost *ret_cost);
