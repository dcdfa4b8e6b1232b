/*
 * The world around one cluster, driven by one seed: control (which may crash between deciding,
 * storing and acting), the store (whose commits may fail), the network (which loses, repeats and
 * reorders messages), and nodes with agents and supervisors (which may die).
 *
 * Every invariant is checked where it could be violated, by world_check.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "cluster/cluster.h"

enum {
    WORLD_NODES = 3,
    WORLD_DEVICES = 4, /* upper limit per node */
    WORLD_IDS = 512,   /* upper limit of workloads per seed */
    WORLD_ATTEMPTS = 96,
    WORLD_MESSAGES = 96,
    WORLD_SUBMIT_MAX = 6,
    WORLD_AFTER_MAX = 3,
    WORLD_KEYS = 16,
    WORLD_PENDING = 1024,
};

/* One attempt on a node, as its supervisor and its directory know it. */
struct run {
    uint64_t workload;
    int attempt;
    enum attempt_phase phase;
    bool service, never_ran;
    enum failure_reason failure;
    int exit_code, signal;
    int64_t stop_at_ms; /* deadline of a stop; INT64_MAX: no stop */
    int turn, advice;
    bool wants_off, evicted;
    enum suspension suspension;
};

enum message_type {
    MESSAGE_HELLO,
    MESSAGE_REPORT,
    MESSAGE_BEAT,
    MESSAGE_GONE, /* control's kernel detects a broken connection */
    MESSAGE_WELCOME,
    MESSAGE_GRANT,
    MESSAGE_STOP,
    MESSAGE_SUSPEND,
    MESSAGE_RESUME,
    MESSAGE_ADVISE,
    MESSAGE_SETTLE,
    MESSAGE_BEAT_ANSWER
};

struct message {
    enum message_type type;
    int node;
    uint64_t connection; /* messages of a node's earlier connection are ignored */
    uint64_t session, sequence, beat;
    uint64_t workload;
    int attempt, turn, advice;
    int64_t grace_ms, not_before_ms;
    bool service;
    size_t run_count;
    struct run *runs; /* HELLO: all; REPORT: one. Owned */
};

struct machine {
    struct node_info info;
    int devices_present; /* devices may disappear and return */
    int boots;           /* increases also when the disk is wiped, which changes the instance */
    bool up, agent;
    uint64_t connection; /* 0: none */
    uint64_t session, sequence;
    int64_t connected_ms, hello_ms, answered_ms, lease_until_ms;
    uint64_t beat;
    int64_t beat_sent_ms;
    size_t run_count;
    struct run runs[WORLD_ATTEMPTS];
};

/* A row of the model store, with the harness's knowledge about it. */
struct row {
    bool exists, deleted, accepted, never_fits;
    uint32_t uid;
    int key; /* -1: none */
    uint64_t first;
    size_t submitted;
    struct workload_needs needs;
    bool labelled;
    size_t after_count;
    struct cluster_after after[WORLD_AFTER_MAX];
    struct workload_status status; /* attempts owned */
    int living;                    /* running copies on all nodes */
};

/* A decision that is not stored yet. */
struct pending {
    enum cluster_action_kind kind;
    uint64_t id;
    struct row fresh;              /* STORE_NEW */
    struct workload_status status; /* attempts owned until committed */
    int node;                      /* STORE_NODE */
    bool drained;
    int devices_present;
    char instance[NODE_INSTANCE_MAX];
    struct message message; /* SEND_* */
    uint64_t request;       /* REPLY */
    int result;
    uint64_t first;
    size_t count;
    bool repeated;
};

struct booking {
    uint64_t quota_bytes;
    int share_percent, neighbours, whole;
};

/* The subject of a request, for judging its reply. */
struct request {
    enum cluster_event_kind kind;
    int key, node;
    uint32_t uid;
    uint64_t connection;
};

struct world {
    uint64_t seed;
    bool verbose;
    struct rng rng;
    int64_t now_ms, wall_offset_ms, boot_offset_ms;
    struct cluster_config config;
    struct cluster *cluster;
    struct cluster_actions actions;
    uint64_t cluster_lives;

    struct row rows[WORLD_IDS];
    uint64_t last_id, pending_last_id; /* committed, and after the pending commit */
    size_t live_rows, kept_rows;       /* not ended; ended and not deleted */
    bool node_known[WORLD_NODES], node_drained[WORLD_NODES];
    struct node_info node_stored[WORLD_NODES];
    struct booking bookings[WORLD_NODES][WORLD_DEVICES];
    int node_attempts[WORLD_NODES], node_cpu_only[WORLD_NODES]; /* committed and open */
    struct {
        uint64_t first;
        size_t count;
    } keys[2][WORLD_KEYS]; /* by uid; first 0: never stored */

    size_t pending_count;
    struct pending pending[WORLD_PENDING];
    struct request requests[WORLD_PENDING];
    uint64_t request_count;

    size_t message_count;
    struct message messages[WORLD_MESSAGES];
    /* Connections up to this one ended when control died. */
    uint64_t last_connection, dead_connections;
    /* Control's side of the nodes' connections: */
    uint64_t control_connection[WORLD_NODES], control_session[WORLD_NODES];
    struct machine machines[WORLD_NODES];
    bool calm; /* no more faults: all workloads must end */

    uint64_t events, events_wanted;
    bool broken;
};

/* Reports the first violation, with the command that reproduces it. */
void world_broken(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define world_check(w, condition, ...)                                                             \
    do {                                                                                           \
        if (!(condition))                                                                          \
            world_broken(w, __VA_ARGS__);                                                          \
    } while (0)
void world_trace(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool world_chance(struct world *w, unsigned percent);
uint64_t world_below(struct world *w, uint64_t bound);
struct clock_now world_control_clock(const struct world *w);

/* forecast_model.c: forecast for kinds 0 … FORECAST_MODEL_KINDS - 1. */
enum { FORECAST_MODEL_KINDS = 6 };
extern const struct forecast forecast_model;

/* store_model.c */
/* Copies the decisions of the last step; `fresh` are the rows of a submission. */
void store_keep(struct world *w, const struct row *fresh);
void store_commit_pending(struct world *w);
void store_drop_pending(struct world *w);
void store_rebuild_cluster(struct world *w);
void store_done(struct world *w);

/* node_model.c */
void machine_init(struct world *w, int node);
void machine_done(struct world *w);
/* Lets supervisors enforce stops and the lease after time has passed. */
void machine_time_passed(struct world *w, int node);
/* Advances an attempt by one phase. */
void machine_progress(struct world *w, int node);
/* Returns whether the attempt has memory on the node's devices, as the node knows. */
bool machine_uses_device(struct world *w, int node, uint64_t workload, int attempt);
/* Lets the agent connect, say hello, beat or report. */
void machine_speak(struct world *w, int node);
void machine_receive(struct world *w, const struct message *m);
void machine_agent_dies(struct world *w, int node);
void machine_supervisor_dies(struct world *w, int node);
void machine_dies(struct world *w, int node, bool wiped);
void machine_starts(struct world *w, int node);
void machine_cut(struct world *w, int node);

/* network.c */
/* Takes ownership of m->runs. */
void network_send(struct world *w, const struct message *m);
/* Delivers one random message that has arrived; returns false if no message is in flight. */
bool network_deliver(struct world *w);
void network_done(struct world *w);

/* control_model.c */
/* Executes one step of the cluster. The seed determines whether and when its actions are stored and
 * carried out. */
void control_step(struct world *w, struct cluster_event *event, const struct row *fresh,
                  const struct request *request);
/* Stores the pending actions, then carries them out. */
void control_flush(struct world *w);
void control_crash(struct world *w);
void control_receive(struct world *w, const struct message *m);
