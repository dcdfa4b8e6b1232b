/*
 * The cluster: every live workload, every node, and what happens next.
 *
 *     cluster_step(cluster, event) → actions
 *
 * Pure: no I/O, no clock, no randomness that was not passed in. The caller (control/, the
 * simulator, the seeded test) carries the actions out in two stages, "decide, store, then act":
 *   1. the STORE_* and EVENT actions of one or more steps are committed together;
 *   2. only then are their REPLY and SEND actions carried out.
 * If the commit fails, none of stage 2 may happen: the caller answers every request with an error,
 * drops this cluster and builds a new one from the store (cluster_new, cluster_load_*). Until a
 * commit succeeds it may then answer the BEATs of sessions that were open, so that leases hold, if
 * it steps no cluster meanwhile and builds the one that it steps next after the last such answer.
 *
 * At most one living copy of a task. A node's attempts may live until its lease and what follows it
 * (fence, drain) have passed; only then, counted from the last word heard, is a task given to
 * another node. A fresh cluster has heard of nobody, so it waits that long from its first event.
 *
 * Messages may be lost, repeated or reordered, and the protocol does not mind: a node's hello opens
 * a session and lists every attempt it has; SENDs carry that session and a growing sequence number,
 * and a node drops what is older than what it has seen; what is not confirmed is sent again after
 * `resend_ms`. Reports carry the whole truth about one attempt and are repeated until settled.
 * What the caller owes: of two connections of one node the one accepted later counts, and a hello
 * that is read from the older one afterwards is not passed on. What a node owes:
 *   - of two WELCOMEs on one connection, the larger session holds; a new connection starts anew;
 *   - of SUSPEND and RESUME the one with the largest `turn` counts, others are answered with
 *     a report; a report shows the newest that came, and is sent when that is taken up and
 *     when it is done;
 *   - a STOP for an attempt that it does not know is answered with an exited report (never_ran),
 *     and that attempt is never started afterwards;
 *   - nothing is started while its lease has run out, and what runs then is ended in time; what it
 *     has accepted but not started when its lease runs out or its agent dies is over (never_ran),
 *     even if the lease comes back;
 *   - when a REPORT or BEAT is answered with -ERR_CONFLICT, its session is over: it says
 *     hello again.
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

/* Open attempts on one node at most, so that a hello stays bounded; past it, the node is full. */
enum { CLUSTER_NODE_ATTEMPTS_MAX = 1024 };

/* Dependencies of all workloads that still wait for one: an array after an array has the product of
 * both. Each is kept in memory and in the store. */
enum { CLUSTER_DEPENDENCIES_MAX = 1000 * 1000 };

enum { CLUSTER_DEVICE_PPM = 1000 * 1000 };

/* What the workloads of a user or a group may hold at a time; CLUSTER_DEVICE_PPM is one device. */
struct cluster_allowance {
    char name[USER_NAME_MAX];
    int64_t guaranteed_ppm; /* up to this they go before all who borrow */
    int64_t most_ppm;       /* and beyond this they wait */
};

struct cluster_config {
    const struct policy *policy;
    const struct forecast *forecast; /* borrowed; NULL: there is none */
    struct policy_options options;
    int max_neighbours;
    int64_t ageing_ms; /* so much waiting counts as one point of priority */
    const struct cluster_allowance *allowances; /* borrowed */
    size_t allowance_count; /* 0: there is no such thing; else who has none borrows all */
    size_t queue_max;       /* live workloads */
    size_t queue_max_user;  /* of one owner who is no administrator; 0: as many */
    int64_t lease_ms;       /* a node's attempts run on that long without us */
    int64_t fence_ms;       /* then, after this, their supervisors ask them to end */
    int64_t drain_ms;       /* and after this end them by force */
    int64_t margin_ms;      /* added for good measure before a task is called lost */
    int64_t resend_ms;      /* unconfirmed grants and stops are repeated after this */
    int64_t backoff_min_ms, backoff_max_ms; /* between restarts of a service, and between retries */
    int faults_max;                         /* GPU faults of a workload's own, then it has failed */
    int64_t keep_finished_ms;               /* retention of finished workloads, by age … */
    size_t keep_finished_max;               /* … and by count */
    /* Ages count once the wall clock has kept pace with the boot clock for so long: one that is
     * wrong for a moment, as before the first word of a time server, costs nobody his history. */
    int64_t clock_steady_ms;
    uint64_t seed;
};
/* The documented defaults (policy gpumux, lease 60 s, …). */
void cluster_config_default(struct cluster_config *config);

/* ---- events ---- */

enum cluster_event_kind {
    CLUSTER_SUBMIT,
    CLUSTER_CANCEL,
    CLUSTER_REQUEUE,
    CLUSTER_SUSPEND,
    CLUSTER_RESUME,
    CLUSTER_DRAIN,    /* or undrain: `on` */
    CLUSTER_LEARN,    /* something was learnt of a workload; no reply */
    CLUSTER_MEASURED, /* how slow a workload is where it runs; no reply. One that can go on
                         elsewhere, and is for long much slower than was predicted, is
                         queued again */
    CLUSTER_FORECAST, /* config.forecast would now answer otherwise, or knows more; no reply */
    CLUSTER_NODE_HELLO,
    CLUSTER_NODE_REPORT,
    CLUSTER_NODE_BEAT,
    CLUSTER_NODE_GONE, /* its connection ended; nothing is known of what runs there */
    CLUSTER_TICK,      /* time passed; see cluster_next_tick() */
    CLUSTER_EVENT_END
};

/* A dependency, resolved by the caller. */
struct cluster_after {
    uint64_t workload; /* an id; or, with `within`, an index into this very submission */
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
    uint32_t allowance; /* 1 + index of it in the configuration; 0: none */
    uint64_t owner;     /* a number for who submits; the same in all of a submission, as the next */
    bool is_admin;      /* bound by queue_max alone */
};

struct cluster_event {
    enum cluster_event_kind kind;
    struct clock_now now;
    uint64_t request; /* the caller's mark, repeated in the REPLY; 0: no reply wanted */
    union {
        struct {
            uint32_t uid;
            const char *key; /* idempotency key of this user, or NULL */
            size_t count;
            const struct cluster_submission *items; /* all or nothing */
        } submit;
        struct {
            uint64_t workload;
            int64_t grace_ms; /* -1: the workload's own; of CANCEL and REQUEUE */
        } stop;               /* CANCEL, REQUEUE, SUSPEND, RESUME */
        struct {
            const char *node;
            bool on;
        } drain;
        struct {
            uint64_t workload;
            struct policy_known known; /* as of now; it replaces what was known */
        } learn;
        struct {
            uint64_t workload;
            int attempt;
            double pd,
                predicted_pd; /* > 0; the latter from before anybody measured them together */
        } measured;
        struct {
            const bool *known; /* by kind, of as many as are counted: workloads of that program are
                                  of that kind from now on */
            size_t count;
        } forecast;
        struct {
            const struct node_info *info;
            size_t count;
            const struct attempt_report
                *attempts; /* every one that it has not been told to settle */
            size_t health_count;
            const struct device_health *health; /* of devices that it watches */
        } hello;
        struct {
            const char *node;
            uint64_t session;
            const struct attempt_report *report; /* REPORT only */
            uint64_t beat;                       /* BEAT only: its number, repeated in the answer */
            size_t health_count, note_count;     /* BEAT only */
            const struct device_health *health;
            const struct device_note *notes;
        } node;
    };
};

/* ---- actions ---- */

enum cluster_action_kind {
    /* stage 1: one commit */
    CLUSTER_STORE_NEW,    /* a workload was accepted: store spec and status */
    CLUSTER_STORE_STATUS, /* its status changed */
    CLUSTER_STORE_DELETE, /* retention: forget it */
    CLUSTER_STORE_NODE,   /* a node's inventory or its drained mark changed */
    CLUSTER_EVENT_LOG,    /* something a person may want to know */
    /* stage 2: after it */
    CLUSTER_REPLY,
    CLUSTER_SEND_WELCOME, /* answers the hello that `request` marks: opens the session */
    CLUSTER_SEND_GRANT,   /* start this attempt */
    CLUSTER_SEND_STOP,    /* end this attempt */
    CLUSTER_SEND_SUSPEND, /* move its device memory to the host's */
    CLUSTER_SEND_RESUME,  /* and back */
    CLUSTER_SEND_SETTLE,  /* its end is stored: stop reporting it */
    CLUSTER_SEND_BEAT,    /* answers a beat: the lease holds from when that beat was sent */
    CLUSTER_ACTION_END
};

struct cluster_action {
    enum cluster_action_kind kind;
    uint64_t workload;
    /* STORE_NEW: which item of the submission this is. */
    size_t item;
    /* STORE_NEW, STORE_STATUS: valid until the next step. */
    const struct workload_status *status;
    /* STORE_NODE, SEND_*: */
    const char *node;
    bool drained;
    const struct node_info *info; /* STORE_NODE; valid until the next step */
    uint64_t session, sequence;   /* SEND_*; sequence 0 for WELCOME and BEAT */
    int attempt;                  /* SEND_GRANT/STOP/SUSPEND/RESUME/SETTLE, EVENT_LOG */
    int turn;                     /* SEND_SUSPEND/RESUME: a report with this number answers it */
    bool suspect, ran_before;     /* SEND_GRANT */
    const struct attempt *placed; /* SEND_GRANT: where; valid until the next step */
    int64_t grace_ms;             /* SEND_STOP */
    uint64_t beat;                /* SEND_BEAT */
    /* EVENT_LOG: a stable word of events.def and a sentence; text is inside the action. */
    const char *what;
    char text[WORKLOAD_TEXT_MAX];
    /* REPLY: */
    uint64_t request;
    int result;     /* 0 or -ERR_x, `text` says why */
    char field[64]; /* of an invalid request, or "" */
    uint64_t first; /* SUBMIT: ids first … first + count - 1 */
    size_t count;
    bool repeated; /* SUBMIT: the key was seen before; these are the ids of then */
};

/* Filled by a step; reused over many. Freed with cluster_actions_done. */
struct cluster_actions {
    struct cluster_action *items;
    size_t count, capacity;
};
void cluster_actions_init(struct cluster_actions *actions);
void cluster_actions_done(struct cluster_actions *actions);

/* ---- life ---- */

/* config is copied. -ERR_NO_MEMORY. */
int cluster_new(const struct cluster_config *config, struct cluster **ret);
void cluster_free(struct cluster *c);

/*
 * Rebuilding from the store, before the first step; any order of workloads, nodes first.
 * A live workload comes with all it needs; of a finished one only id, key and end are kept.
 */
int cluster_load_node(struct cluster *c, const struct node_info *info, bool drained);
struct cluster_stored {
    uint64_t id;
    uint32_t uid;
    const char *name, *key; /* key NULL: none; `key_first`/`key_count`: that submission's ids */
    uint64_t key_first;
    size_t key_count;
    const struct workload_needs *needs; /* live ones only */
    const struct pairs *node_labels;
    size_t after_count;
    const struct cluster_after *after; /* all by id */
    const struct workload_status *status;
    struct policy_known known; /* live ones only, as the next two */
    uint32_t allowance;
    uint64_t owner;
};
int cluster_load_workload(struct cluster *c, const struct cluster_stored *stored);
/* Ids continue after `last_id`, whatever was deleted meanwhile. */
void cluster_load_done(struct cluster *c, uint64_t last_id, struct clock_now now);

/*
 * One step. Appends to *actions (the caller clears it). Never fails for what an event says: that is
 * a REPLY. -ERR_NO_MEMORY leaves the cluster unusable, to be rebuilt.
 */
int cluster_step(struct cluster *c, const struct cluster_event *event,
                 struct cluster_actions *actions);

/* When the next TICK is due (boot clock), INT64_MAX if nothing waits for time. */
int64_t cluster_next_tick(const struct cluster *c);

/* ---- questions; they change nothing ---- */

/* Where would each workload of a submission go now, when those of it that go first have what
 * they take? An empty node means that it would not start, and text says why. Fails as the
 * submission would. */
struct cluster_preview {
    char node[NODE_NAME_MAX];
    int device_count;
    char devices[WORKLOAD_DEVICES_MAX][DEVICE_UUID_MAX];
    char text[WORKLOAD_TEXT_MAX];
    bool never; /* nothing that is here will ever do for it */
};
/* ret has room for all, in their order. */
int cluster_preview(struct error *e, struct cluster *c, const struct cluster_submission *items,
                    size_t count, struct cluster_preview *ret);
/* Devices that are alike, as the policy sees them for a workload now. */
struct cluster_candidate {
    char node[NODE_NAME_MAX], device[DEVICE_UUID_MAX], model[DEVICE_MODEL_MAX]; /* of one of them */
    size_t devices, neighbours;
    bool chosen,
        here;    /* here: it is on this one, which has a line of its own if another is chosen */
    bool judged; /* what follows is known */
    double speed, pd; /* its own there, by the forecast */
    double gain;      /* its own speed, less what the neighbours lose */
    /* Of the service that is nearest to its SLO, or misses it: */
    double slo_ms;                  /* 0: there is none */
    double p99_ms;                  /* with it there; 0: not known */
    bool is_p99_guess;              /* not measured, and no reason to refuse anybody */
    uint32_t service;               /* its policy_known.kind */
    char reason[WORKLOAD_TEXT_MAX]; /* why it is, or is not */
};
enum { CLUSTER_CANDIDATES_MAX = 64 };
struct cluster_explanation {
    char text[WORKLOAD_TEXT_MAX]; /* the decision */
    double measured_pd,
        predicted_pd; /* where it runs, see CLUSTER_MEASURED; 0: it was not measured */
    size_t count;
    struct cluster_candidate candidates[CLUSTER_CANDIDATES_MAX]; /* the best first */
};
/* What would become of a live workload if it were placed now: where it runs is as if it were not
 * there. -ERR_NOT_FOUND, -ERR_NO_MEMORY. */
int cluster_explain(struct cluster *c, uint64_t workload, struct cluster_explanation *ret);

/* NULL if it is not live. Valid until the next step. */
const struct workload_status *cluster_live_status(const struct cluster *c, uint64_t workload);
/* Why a queued workload waits, by what is known now: its stored text may be older. *ret_never:
 * nothing that is here will ever do for it. NULL if no such workload is queued. Between two steps
 * only so many are made anew; after that the answer may be an older one. Valid until the next call
 * of the cluster. */
const char *cluster_note(struct cluster *c, uint64_t workload, bool *ret_never);
/* Its policy_known.program; 0 if it is not live. */
uint32_t cluster_live_program(const struct cluster *c, uint64_t workload);
/* Sets ret_used[p] for every program p < count that a live workload runs. */
void cluster_programs_in_use(const struct cluster *c, bool *ret_used, size_t count);

/* The words of events.def, for documentation: index 0, 1, …; NULL past the last. */
const char *cluster_event_word(size_t index, const char **ret_help);

struct cluster_counts {
    size_t live, finished, by_state[WORKLOAD_STATE_END], nodes_connected, nodes_known;
    uint64_t decisions; /* of the policy since this cluster was made, refusals included */
};
void cluster_count(const struct cluster *c, struct cluster_counts *ret);
/* Is the node's session open? */
bool cluster_node_connected(const struct cluster *c, const char *node);
bool cluster_session_is_open(const struct cluster *c, const char *node, uint64_t session);
/* Does it take nothing new, because starts failed there? */
bool cluster_node_held(const struct cluster *c, const char *node);
/* The devices with what is booked on them, for `nodes`, `top` and metrics; valid until the next
 * step. */
void cluster_inventory(const struct cluster *c, struct policy_snapshot *ret);
/* What the node last said of this device; NULL: there is no such. Valid until the next step. */
const struct device_health *cluster_device_health(const struct cluster *c, const char *node,
                                                  const char *uuid);
/* Ids of the workloads with an open attempt on this device, oldest attempt first. Returns how many
 * were written (≤ room). */
size_t cluster_device_workloads(const struct cluster *c, const char *node, const char *uuid,
                                uint64_t *ret_ids, size_t room);
