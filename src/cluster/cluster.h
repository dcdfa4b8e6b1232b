/*
 * The cluster: every live workload, every node, and the decisions about them.
 *
 *     cluster_step(cluster, event) → actions
 *
 * Pure: no I/O, no clock, and no randomness except the seed passed in. The caller (control/, the
 * simulator, the seeded test) carries out the actions in two stages, "decide, store, then act":
 *   1. commit the STORE_* and EVENT actions of one or more steps together;
 *   2. only then carry out the REPLY and SEND actions of these steps.
 * If the commit fails, stage 2 must not happen: the caller answers every request with an error,
 * drops this cluster and builds a new one from the store (cluster_new, cluster_load_*). Until a
 * commit succeeds, the caller may still answer the BEATs of open sessions to extend leases. Until
 * then the caller must step no cluster, and must build the next cluster after the last answer.
 *
 * A task has at most one living copy. Attempts on a node may live until the node's lease and the
 * periods after it (fence, drain) have passed, counted from the last message of the node; only then
 * does a task move to another node. A new cluster has received no message from any node, so the
 * cluster counts these periods from its first event.
 *
 * The protocol tolerates lost, repeated and reordered messages. A node's hello opens a session and
 * lists all attempts of the node. SENDs carry the session and an increasing sequence number, and a
 * node drops SENDs older than the newest received. Unconfirmed SENDs are repeated after
 * `resend_ms`. A report contains the complete state of one attempt and is repeated until settled.
 * The caller's duty: if a node has two connections, use the connection accepted later, and drop a
 * hello from the older connection. The duties of a node:
 *   - if two WELCOMEs arrive on one connection, use the larger session; a new connection resets
 *     this rule;
 *   - follow the SUSPEND or RESUME with the largest `turn`, and answer any other with a report; a
 *     report shows the newest order received, and is sent when the order is accepted and when the
 *     order is done;
 *   - follow the ADVISE with the largest number, and answer each ADVISE with a report, which shows
 *     the newest number received;
 *   - answer a STOP for an unknown attempt with an exited report (never_ran), and never start that
 *     attempt afterwards;
 *   - without a lease, start nothing and end running tasks in time;
 *   - if the lease expires or the agent dies before an accepted attempt starts, report the attempt
 *     as exited (never_ran), even if the lease is renewed;
 *   - send a new hello when a REPORT or BEAT is answered with -ERR_CONFLICT: the session has ended.
 *
 * This folder contains the state machine of workloads and nodes. Files of the folder cluster may
 * include base, model, policy.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/node.h"
#include "model/workload.h"
#include "policy/policy.h"

struct cluster;

/* Limit of all unmet dependencies of live workloads, which are kept in memory and in the store. An
 * array that depends on an array counts with the product of both sizes. */
enum { CLUSTER_DEPENDENCIES_MAX = 1000 * 1000 };

enum { CLUSTER_DEVICE_PPM = 1000 * 1000 };

/* Limits on the devices that a user's or group's workloads occupy at a time; CLUSTER_DEVICE_PPM is
 * one device. */
struct cluster_allowance {
    char name[USER_NAME_MAX];
    int64_t guaranteed_ppm; /* up to this limit, workloads precede all borrowers */
    int64_t most_ppm;       /* beyond this limit, workloads wait */
};

struct cluster_config {
    const struct policy *policy;
    const struct forecast *forecast; /* borrowed; NULL: none */
    struct policy_options options;
    int max_neighbours;
    int attempts_max;  /* limit of open attempts on one node, which bounds the hello */
    int cpu_tasks_max; /* limit of attempts without devices; 0: twice the node's cores */
    int64_t ageing_ms; /* waiting time equivalent to one point of priority */
    const struct cluster_allowance *allowances; /* borrowed */
    /* 0: no allowances; otherwise users without an allowance borrow everything. */
    size_t allowance_count;
    size_t queue_max;      /* limit of live workloads */
    size_t queue_max_user; /* limit per owner except administrators; 0: queue_max */
    int64_t lease_ms;      /* time that a node's attempts may run without control */
    int64_t fence_ms;      /* time from the lease's expiry until supervisors send SIGTERM */
    int64_t drain_ms;      /* time from the end of the fence until supervisors send SIGKILL */
    int64_t margin_ms;     /* safety margin before a task is considered lost */
    int64_t resend_ms;     /* interval between repeats of unconfirmed grants and stops */
    /* Pause between restarts of a service, and between retries. */
    int64_t backoff_min_ms, backoff_max_ms;
    int faults_max;           /* own GPU faults after which a workload fails */
    int64_t keep_finished_ms; /* retention of finished workloads, by age */
    size_t keep_finished_max; /* retention of finished workloads, by number */
    /* Time for which the wall clock must keep pace with the boot clock before ages count. So a
     * clock that is briefly wrong, as before the first time synchronization, causes no deletion of
     * history. */
    int64_t clock_steady_ms;
    uint64_t seed;
};
/* Sets the documented defaults (policy gpumux, lease 60 s, …). */
void cluster_config_default(struct cluster_config *config);

/* ---- events ---- */

enum cluster_event_kind {
    CLUSTER_SUBMIT,
    CLUSTER_CANCEL,
    CLUSTER_REQUEUE,
    CLUSTER_SUSPEND,
    CLUSTER_RESUME,
    CLUSTER_ADVISE, /* advice to the programs of a workload */
    CLUSTER_DRAIN,  /* drain or undrain: `on` */
    CLUSTER_LEARN,  /* new knowledge about a workload; no reply */
    /* Measured speed of a workload on its device; no reply. A workload with checkpoints that stays
     * much slower than predicted is requeued. */
    CLUSTER_MEASURED,
    CLUSTER_FORECAST, /* config.forecast contains new predictions or kinds; no reply */
    CLUSTER_NODE_HELLO,
    CLUSTER_NODE_REPORT,
    CLUSTER_NODE_BEAT,
    CLUSTER_NODE_GONE, /* the connection ended; the state of the node's attempts is unknown */
    CLUSTER_TICK,      /* time has passed; see cluster_next_tick() */
    CLUSTER_EVENT_END
};

/* A dependency, resolved by the caller. */
struct cluster_after {
    uint64_t workload; /* an id; with `within`, an index into the same submission */
    bool within;
    bool succeeded;
};

struct cluster_submission {
    const char *name; /* an array's element: "NAME[i]" */
    const struct workload_needs *needs;
    const struct pairs *node_labels;
    size_t after_count;
    const struct cluster_after *after;
    struct policy_known known;
    uint32_t allowance; /* 1 + index in the configuration; 0: none */
    uint64_t owner;     /* number of the submitting owner; equal for all items, like is_admin */
    bool is_admin;      /* the submission is limited by queue_max only */
};

struct cluster_event {
    enum cluster_event_kind kind;
    struct clock_now now;
    uint64_t request; /* the caller's id, repeated in the REPLY; 0: no reply */
    union {
        struct {
            uint32_t uid;
            const char *key; /* idempotency key of this user, or NULL */
            size_t count;
            const struct cluster_submission *items; /* accepted all or none */
        } submit;
        struct {
            uint64_t workload;
            int64_t grace_ms; /* for CANCEL and REQUEUE; -1: the workload's own grace period */
        } stop;               /* CANCEL, REQUEUE, SUSPEND, RESUME */
        struct {
            uint64_t workload; /* at the place of stop.workload */
            int64_t batch;     /* batch size to use; 0: none; negative: unchanged */
            bool checkpoint;   /* request a checkpoint */
        } advise;
        struct {
            const char *node;
            bool on;
        } drain;
        struct {
            uint64_t workload;
            struct policy_known known; /* current; replaces earlier knowledge */
        } learn;
        struct {
            uint64_t workload;
            int attempt;
            double pd;           /* > 0 */
            double predicted_pd; /* > 0; predicted before any measurement of this combination */
        } measured;
        struct {
            /* Indexed by kind, `count` entries. true: workloads of this program have this kind from
             * now on. */
            const bool *known;
            size_t count;
        } forecast;
        struct {
            const struct node_info *info;
            size_t count;
            const struct attempt_report *attempts; /* all attempts that the node has not settled */
            size_t health_count;
            const struct device_health *health; /* health of the devices that the node monitors */
        } hello;
        struct {
            const char *node;
            uint64_t session;
            const struct attempt_report *report; /* REPORT only */
            /* BEAT only: number of the beat, repeated in the answer. */
            uint64_t beat;
            size_t health_count, note_count; /* BEAT only */
            const struct device_health *health;
            const struct device_note *notes;
        } node;
    };
};

/* ---- actions ---- */

enum cluster_action_kind {
    /* Stage 1, one commit: */
    CLUSTER_STORE_NEW,    /* workload accepted: store spec and status */
    CLUSTER_STORE_STATUS, /* status changed */
    CLUSTER_STORE_DELETE, /* retention expired: delete the workload */
    CLUSTER_STORE_NODE,   /* inventory or drained mark of a node changed */
    CLUSTER_EVENT_LOG,    /* event for users */
    /* Stage 2, after the commit: */
    CLUSTER_REPLY,
    CLUSTER_SEND_WELCOME, /* answer to the hello with this `request`: opens the session */
    CLUSTER_SEND_GRANT,   /* start this attempt */
    CLUSTER_SEND_STOP,    /* end this attempt */
    CLUSTER_SEND_SUSPEND, /* move device memory to the host */
    CLUSTER_SEND_RESUME,  /* move device memory back */
    CLUSTER_SEND_ADVISE,  /* pass `advice` to the programs of this attempt */
    CLUSTER_SEND_SETTLE,  /* the end is stored: stop reporting the attempt */
    /* Answer to a beat: extends the lease from the sending time of that beat. */
    CLUSTER_SEND_BEAT,
    CLUSTER_ACTION_END
};

struct cluster_action {
    enum cluster_action_kind kind;
    uint64_t workload;
    /* STORE_NEW: index in the submission. */
    size_t item;
    /* STORE_NEW, STORE_STATUS: valid until the next step. */
    const struct workload_status *status;
    /* STORE_NODE, SEND_*: */
    const char *node;
    bool drained;
    const struct node_info *info; /* STORE_NODE; valid until the next step */
    uint64_t session, sequence;   /* SEND_*; sequence 0 for WELCOME and BEAT */
    int attempt;                  /* SEND_* of an attempt, EVENT_LOG */
    /* SEND_SUSPEND/RESUME: number that the node repeats in its report. */
    int turn;
    struct advice advice;         /* SEND_ADVISE */
    bool suspect, ran_before;     /* SEND_GRANT */
    const struct attempt *placed; /* SEND_GRANT: placement; valid until the next step */
    int64_t grace_ms;             /* SEND_STOP */
    uint64_t beat;                /* SEND_BEAT */
    /* EVENT_LOG: a stable word of events.def and a sentence; the text is stored in the action. */
    const char *what;
    char text[WORKLOAD_TEXT_MAX];
    /* REPLY: */
    uint64_t request;
    int result;     /* 0 or -ERR_x, explained by `text` */
    char field[64]; /* invalid field of the request, or "" */
    uint64_t first; /* SUBMIT: ids first … first + count - 1 */
    size_t count;
    bool repeated; /* SUBMIT: known key; the ids are those of the first submission */
};

/* Filled by a step and reused for many steps. Freed with cluster_actions_done. */
struct cluster_actions {
    struct cluster_action *items;
    size_t count, capacity;
};
void cluster_actions_init(struct cluster_actions *actions);
void cluster_actions_done(struct cluster_actions *actions);

/* ---- life ---- */

/* Copies the config. Returns -ERR_NO_MEMORY. */
int cluster_new(const struct cluster_config *config, struct cluster **ret);
void cluster_free(struct cluster *c);

/*
 * Rebuilds a cluster from the store, before the first step: first all nodes, then the workloads in
 * any order. A live workload needs all members of struct cluster_stored. The cluster keeps only the
 * id, the key and the end of a finished workload.
 */
int cluster_load_node(struct cluster *c, const struct node_info *info, bool drained);
struct cluster_stored {
    uint64_t id;
    uint32_t uid;
    /* Key NULL: none; `key_first`/`key_count`: ids of the key's submission. */
    const char *name, *key;
    uint64_t key_first;
    size_t key_count;
    const struct workload_needs *needs; /* live workloads only */
    const struct pairs *node_labels;
    size_t after_count;
    const struct cluster_after *after; /* all by id */
    const struct workload_status *status;
    struct policy_known known; /* live workloads only, also `allowance` and `owner` */
    uint32_t allowance;
    uint64_t owner;
};
int cluster_load_workload(struct cluster *c, const struct cluster_stored *stored);
/* Completes loading. New ids follow `last_id`, even if later workloads were deleted. */
void cluster_load_done(struct cluster *c, uint64_t last_id, struct clock_now now);

/*
 * Executes one step and appends to *actions, which the caller clears. A step does not fail because
 * of an event's content; such errors are REPLYs. After -ERR_NO_MEMORY the cluster is unusable and
 * must be rebuilt.
 */
int cluster_step(struct cluster *c, const struct cluster_event *event,
                 struct cluster_actions *actions);

/* Returns the boot-clock time of the next TICK; INT64_MAX if no timer is set. */
int64_t cluster_next_tick(const struct cluster *c);

/* ---- queries, without side effects ---- */

/* Placement that a workload of a submission would get now, after the placement of all earlier
 * workloads of that submission. An empty node means no start now, and text gives the reason. */
struct cluster_preview {
    char node[NODE_NAME_MAX];
    int device_count;
    char devices[WORKLOAD_DEVICES_MAX][DEVICE_UUID_MAX];
    char text[WORKLOAD_TEXT_MAX];
    bool never; /* no present node can ever satisfy the workload */
};
/* Previews all items. `ret` has room for all, in the same order. Fails as the submission would. */
int cluster_preview(struct error *e, struct cluster *c, const struct cluster_submission *items,
                    size_t count, struct cluster_preview *ret);
/* Equivalent devices, as the policy sees them for a workload now. */
struct cluster_candidate {
    /* Location of one of these devices. */
    char node[NODE_NAME_MAX], device[DEVICE_UUID_MAX], model[DEVICE_MODEL_MAX];
    char name[DEVICE_NAME_MAX]; /* of the device, for people */
    size_t devices, neighbours;
    bool chosen;
    bool here;        /* the workload runs on this device, listed separately if another is chosen */
    bool judged;      /* the fields below are valid */
    double speed, pd; /* predicted for the workload on this device */
    double gain;      /* speed of the workload minus the speed that its neighbours lose */
    /* The service closest to its SLO, or furthest beyond it: */
    double slo_ms;                  /* 0: none */
    double p99_ms;                  /* p99 with the workload on the device; 0: unknown */
    bool is_p99_guess;              /* predicted, not measured, so no reason for a refusal */
    uint32_t service;               /* policy_known.kind of the service */
    char reason[WORKLOAD_TEXT_MAX]; /* reason why the devices are chosen or rejected */
};
enum { CLUSTER_CANDIDATES_MAX = 64 };
struct cluster_explanation {
    char text[WORKLOAD_TEXT_MAX]; /* the decision */
    /* PD of the present placement, measured and predicted as in CLUSTER_MEASURED; 0: not
     * measured. */
    double measured_pd, predicted_pd;
    size_t count;
    struct cluster_candidate candidates[CLUSTER_CANDIDATES_MAX]; /* best first */
};
/* Explains the placement that a live workload would get now. A running workload counts as absent
 * from its devices. Returns -ERR_NOT_FOUND or -ERR_NO_MEMORY. */
int cluster_explain(struct cluster *c, uint64_t workload, struct cluster_explanation *ret);

/* Returns NULL if the workload is not live. Valid until the next step. */
const struct workload_status *cluster_live_status(const struct cluster *c, uint64_t workload);
/* Returns the current reason why a queued workload waits; the stored text may be older. Sets
 * *ret_never to whether no present node can ever satisfy the workload. Returns NULL if the workload
 * is not queued. The cluster limits the number of new texts between two steps; beyond the limit the
 * call returns an older text. Valid until the next call. */
const char *cluster_note(struct cluster *c, uint64_t workload, bool *ret_never);
/* Returns the workload's policy_known.program; 0 if the workload is not live. */
uint32_t cluster_live_program(const struct cluster *c, uint64_t workload);
/* Sets ret_used[p] for every program p < count that a live workload runs. */
void cluster_programs_in_use(const struct cluster *c, bool *ret_used, size_t count);

struct cluster_counts {
    size_t live, finished, by_state[WORKLOAD_STATE_END], nodes_connected, nodes_known;
    uint64_t decisions; /* decisions of the policy since cluster_new(), including refusals */
};
void cluster_count(const struct cluster *c, struct cluster_counts *ret);
/* Returns whether the node's session is open. */
bool cluster_node_connected(const struct cluster *c, const char *node);
bool cluster_session_is_open(const struct cluster *c, const char *node, uint64_t session);
/* Returns whether the node accepts no new work because starts failed on the node. */
bool cluster_node_held(const struct cluster *c, const char *node);
/* Returns the devices and their bookings, for `nodes`, `top` and metrics. Valid until the next
 * step. */
void cluster_inventory(const struct cluster *c, struct policy_snapshot *ret);
/* Returns the node's last report on this device, or NULL for an unknown device. Valid until the
 * next step. */
const struct device_health *cluster_device_health(const struct cluster *c, const char *node,
                                                  const char *uuid);
/* Writes the name of a device for people: NODE:INDEX; for a device that its node no longer reports,
 * the UUID. */
void cluster_device_name(const struct cluster *c, const char *node, const char *uuid,
                         char ret[DEVICE_NAME_MAX]);
/* Writes the ids of at most `room` workloads with an open attempt on this device, oldest attempt
 * first. Returns the number written. */
size_t cluster_device_workloads(const struct cluster *c, const char *node, const char *uuid,
                                uint64_t *ret_ids, size_t room);
