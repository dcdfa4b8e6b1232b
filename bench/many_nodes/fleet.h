/*
 * Nodes without machines: each has a connection of its own and speaks the node protocol on it, says
 * hello, beats, takes grants, reports and settles, and says hello again when the connection is
 * lost. All of them live on one event loop.
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
    int devices; /* of each */
    int64_t beat_ms;
    /* A stream that is connecting to control, for node number `node`; the fleet owns it. NULL: it
     * could not be made. */
    struct bufferevent *(*connect)(void *arg, struct event_base *base, size_t node);
    /* A grant came that the node did not have. Returns for how long the attempt runs; < 0: until
     * it is stopped. */
    int64_t (*granted)(void *arg, const struct grant *grant);
    /* An attempt was settled. */
    void (*settled)(void *arg, uint64_t workload);
    void *arg;
};

enum { FLEET_ROUND_TRIPS_MAX = 1 << 20 };

struct fleet_counts {
    size_t welcomed;      /* nodes that have a session now */
    size_t attempts;      /* that nodes hold now */
    uint64_t connections; /* that were ever lost */
    uint64_t grants, repeated_grants, settled, beats_answered;
    /* From sending a beat to its answer; the fleet's own, in the order of the answers. */
    const int32_t *round_trips_us;
    size_t round_trip_count;
};

/* NULL: out of memory. */
struct fleet *fleet_new(const struct fleet_options *options);
void fleet_free(struct fleet *f);
void fleet_count(const struct fleet *f, struct fleet_counts *ret);
/* Round trips from now on. */
void fleet_forget_round_trips(struct fleet *f);
