/*
 * Nodes without machines: each has its own connection and speaks the node protocol: hello, beats,
 * grants, reports and settles, and a new hello when the connection is lost. All nodes share one
 * event loop.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct bufferevent;
struct event_base;
struct fleet;
struct grant;

struct fleet_options {
    struct event_base *base;
    size_t nodes;
    int devices; /* of each node */
    int64_t beat_ms;
    /* Returns a stream that connects to control for node number `node`, owned by the fleet; NULL on
     * failure. */
    struct bufferevent *(*connect)(void *arg, struct event_base *base, size_t node);
    /* Called for a grant that the node did not have. Returns the run time of the attempt; < 0:
     * until it is stopped. */
    int64_t (*granted)(void *arg, const struct grant *grant);
    /* Called when an attempt was settled. */
    void (*settled)(void *arg, uint64_t workload);
    void *arg;
};

enum { FLEET_ROUND_TRIPS_MAX = 1 << 20 };

struct fleet_counts {
    size_t welcomed;      /* nodes with a session now */
    size_t attempts;      /* attempts on all nodes now */
    uint64_t connections; /* connections lost so far */
    uint64_t grants, repeated_grants, settled, beats_answered;
    /* Times from a beat to its response, in the order of responses; owned by the fleet. */
    const int32_t *round_trips_us;
    size_t round_trip_count;
};

/* Returns NULL if out of memory. */
struct fleet *fleet_new(const struct fleet_options *options);
void fleet_free(struct fleet *f);
void fleet_count(const struct fleet *f, struct fleet_counts *ret);
/* Discards the round trips measured so far. */
void fleet_forget_round_trips(struct fleet *f);
