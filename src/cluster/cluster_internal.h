/*
 * Inside the cluster. Who holds what:
 *
 *   workload      a live one, owned by cluster.live (by id); from its end until the next step it
 *                 lies in cluster.buried, because actions point into it
 *   requirement   what the placement of a workload depends on, shared by all that ask for the same:
 *                 if one does not fit now, none of them does. Its queue holds those that may start
 *   node          known for ever once seen; lists the workloads with an open attempt there
 *   finished      a row of 32 bytes for each ended workload that is still kept
 *
 * A step changes memory first and collects what is due (workload.touched); its end writes one
 * STORE action for each changed workload and then the SENDs, so nothing is stored twice.
 *
 * Memory running out sets cluster.failed; everything stays safe to walk and free, the step answers
 * -ERR_NO_MEMORY, and the caller rebuilds.
 */
#pragma once
#include "base/hash.h"
#include "base/list.h"
#include "cluster/cluster.h"
#include "cluster/heap.h"
#include "policy/place.h"

/* Changes of devices that are remembered; who missed more looks at all devices. A power of two. */
enum { CHANGES_KEPT = 64 };

enum timer_owner { TIMER_WORKLOAD, TIMER_NODE, TIMER_RETENTION, TIMER_REQUIREMENT, TIMER_ROUND };

struct timer {
    struct heap_member member;
    int64_t due_boot_ms;
    enum timer_owner owner;
};

struct requirement {
    struct heap_member ready; /* in cluster.ready: its first may fit somewhere */
    struct list refused;      /* in cluster.refused: tried since devices last became free */
    struct heap queue;        /* of workloads: larger priority, then smaller id first */
    struct requirement *next; /* another of the same hash */
    uint64_t hash;
    size_t references;
    struct workload_needs needs; /* only what placement looks at; the rest is zero */
    struct pairs node_labels;    /* owned */
    uint32_t kind;               /* of the forecast */
    uint32_t allowance;          /* 0: none */
    bool borrows;                /* its next would be beyond what is guaranteed */
    bool asked;         /* the policy was, of all devices: what changed since may be enough */
    double best_score;  /* of what it found then; −INFINITY: nothing */
    uint64_t seen;      /* of the cluster's changes */
    bool could;         /* it was refused where it could have gone: waiting is better */
    struct timer timer; /* when it is placed even so */
    uint64_t explained; /* text is about the cluster's `facts` of then; 0: there is no text */
    bool never;         /* by the text, nothing here will ever do */
    char text[WORKLOAD_TEXT_MAX];
};

/* "waiter may start when `on` has ended (well)". */
struct dependency {
    struct list among_dependents; /* of the live workload `on`, until that ends */
    struct workload *waiter;
    uint64_t on;
    bool succeeded, met;
};

/* A client's idempotency key, as two hashes of uid and key; kept as long as one of its
 * workloads. */
struct submit_key {
    uint64_t hash, check;
    uint64_t first;
    size_t count, references;
};

/* Somebody who has live workloads, and how many. */
struct owner {
    uint64_t number;
    size_t live;
};

struct workload {
    uint64_t id;
    struct owner *owner; /* NULL: it has ended */
    struct workload_needs needs;
    struct policy_known known; /* alone_ms: from its beginning, or since it was last learnt */
    double left_ms;            /* of that, when it was last booked or released; 0: not known */
    int64_t booked_boot_ms;
    struct requirement *requirement;
    struct workload_status status; /* attempts owned */
    struct submit_key *key;        /* or NULL */

    /* queued: */
    struct heap_member queued; /* in requirement->queue */
    size_t dependency_count, unmet_count;
    struct dependency *dependencies; /* owned */
    struct list dependents;          /* dependencies of others on this one */
    int64_t queued_boot_ms;          /* since when it waits */
    double rank_ms;                  /* smaller goes first; as it was when it came to the queue */
    uint64_t dependency_failed;      /* 0: none; found while loading, told at the first tick */

    /* with an open attempt: */
    struct node *node; /* NULL: none is open */
    struct list on_node;
    enum attempt_phase phase; /* as last reported; ATTEMPT_PHASE_END: not confirmed at all */
    bool booked;              /* on its devices, in the inventory */
    int64_t charged_ppm;      /* of its allowance */
    bool forgotten;           /* its node did not list it: asked to end what may be left of it */
    bool listed;              /* scratch of a hello */
    int64_t running_boot_ms;  /* since when it runs, 0: not */
    int64_t stop_grace_ms;
    struct list held;        /* in cluster.held */
    int64_t resume_again_ms; /* after the last failure to resume it; 0: there was none */
    struct node *wish_node;  /* it is stopped to be moved there, to that device of it; or NULL */
    size_t wish_device;
    bool reclaimed;             /* it is stopped because it borrowed */
    bool misplaced;             /* or because it is much slower than expected */
    bool stranded;              /* or because it cannot return to its device */
    int64_t misplaced_since_ms; /* 0: it is not */
    double measured_pd;         /* where it is; 0: it was not measured there */
    double predicted_pd;        /* likewise */
    bool is_slowness_told;

    struct timer timer; /* back-off, or repeating what is unconfirmed */

    /* what the end of this step has to do for it: */
    struct list touched;
    bool is_new, store_due, grant_due, stop_due, turn_due;
    size_t item; /* of its submission; with is_new */
};

struct node {
    struct node_info info;                         /* labels owned */
    struct device_health health[NODE_DEVICES_MAX]; /* same index as info.devices */
    size_t index;                                  /* in cluster.nodes */
    bool drained, connected, lost;
    bool doubtful;                           /* a start failed there */
    bool held;                               /* so often that it takes nothing new */
    int strikes;                             /* starts that failed there and worked elsewhere */
    int64_t doubt_ms, doubted_until_boot_ms; /* how long it is in doubt, twice as long each time */
    uint64_t session, sequence;
    int64_t heard_boot_ms;
    struct list open; /* workloads with an open attempt here */
    size_t open_count;
    struct timer timer; /* silence, then loss; may be early, never late */
};

struct finished {
    uint64_t id;
    int64_t ended_wall_ms;
    struct submit_key *key;
    enum workload_state state;
};

/* Ended workloads, oldest end first. The index of a row grows for ever; `base` is that of
 * rows[0]. */
struct finished_rows {
    struct finished *rows;
    size_t first, count, capacity; /* live rows: [first, first + count) */
    size_t base;
    struct hash_map by_id; /* id → index + 1 */
    struct timer timer;
    int64_t steady_boot_ms; /* since then the wall clock has kept pace with the boot clock … */
    int64_t wall_ahead_ms;  /* … and was that much ahead of it */
};

struct cluster {
    struct cluster_config config;
    bool failed;
    struct clock_now now;
    struct cluster_actions *actions; /* of the step under way */
    uint64_t last_id, last_session, round;
    uint64_t decisions; /* that the policy has made, refusals included */

    struct hash_map live;   /* id → workload */
    struct list touched;    /* workloads with something due at the end of the step */
    struct list ended;      /* ended in this step, dependents not yet told */
    struct list buried;     /* ended; freed by the next step */
    struct list unlinked;   /* loaded, dependencies not yet linked */
    struct list held;       /* suspended ones that come back when there is room */
    bool held_due;          /* there may be */
    struct hash_map keys;   /* submit_key.hash → submit_key */
    struct hash_map owners; /* number → owner */
    struct finished_rows finished;
    size_t dependency_count; /* of all that wait for some */
    size_t by_state[WORKLOAD_STATE_END];

    struct hash_map requirements; /* hash → chain */
    struct heap ready;
    struct list refused;
    int64_t *allowance_used;  /* in ppm, by number; [0]: of those without one */
    uint64_t facts;           /* grows with whatever the text of a refusal may depend on */
    size_t explanations_left; /* of refusals, until the next step */
    struct workload *keeper;  /* the queued one that devices are kept for; NULL: none are */
    size_t kept[WORKLOAD_DEVICES_MAX], kept_count;
    size_t keeps_left; /* workloads that devices are looked for, in this run of the queue */

    struct node **nodes;
    size_t node_count, node_capacity;
    struct hash_map nodes_by_name;
    struct policy_node *policy_nodes; /* same index as nodes */
    struct policy_device *policy_devices, *scratch;
    size_t device_count, device_capacity;
    uint64_t memory_max_bytes;    /* of the largest */
    struct forecast cold;         /* config.forecast's, if the predictor is left out */
    struct fleet fleet;           /* of policies that judge */
    bool judges;                  /* the policy does: there is a fleet */
    size_t changed[CHANGES_KEPT]; /* which device change i was of, at i modulo CHANGES_KEPT */
    uint64_t changes;
    bool fleet_stale; /* devices came or went: it is made anew before it is used */
    struct timer round_timer;
    bool round_due;

    struct heap timers;
};

/* state.c */
struct workload *workload_find(const struct cluster *c, uint64_t id);
/* Adds a live workload; the caller fills in what it knows. NULL: out of memory. */
struct workload *workload_add(struct cluster *c, uint64_t id, uint64_t owner,
                              const struct workload_needs *needs, const struct pairs *labels,
                              const struct policy_known *known, uint32_t allowance);
/* Something was learnt of one. */
void workload_learn(struct cluster *c, const struct cluster_event *event);
void workload_measured(struct cluster *c, const struct cluster_event *event);
/* Or of all, and some are of kinds that are known now. */
void workload_forecast(struct cluster *c, const struct cluster_event *event);
void workload_free(struct cluster *c, struct workload *w);
void workload_set_state(struct cluster *c, struct workload *w, enum workload_state state);
void workload_set_text(struct workload *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Its status is stored at the end of this step. */
void workload_touch(struct cluster *c, struct workload *w);
void workload_send_grant(struct cluster *c, struct workload *w);
void workload_send_stop(struct cluster *c, struct workload *w);
/* To suspend it, or to resume it: as its state says. */
void workload_send_turn(struct cluster *c, struct workload *w);
/* Whether it may have caused a fault: with whom it may share a device depends on it. */
void workload_set_suspect(struct cluster *c, struct workload *w, bool suspect);
/* Whether it is to be tried where no start failed. Of one that has no attempt open and is
 * not queued. */
void workload_set_wary(struct cluster *c, struct workload *w, bool wary);
/* Ends it for ever; its attempt must be closed. Its dependents are told later in the step. */
void workload_end(struct cluster *c, struct workload *w, enum workload_state state,
                  enum failure_reason failure);
void timer_set(struct cluster *c, struct timer *t, int64_t due_boot_ms);
void timer_clear(struct cluster *c, struct timer *t);

/* actions.c */
/* NULL when memory is out. */
struct cluster_action *action_add(struct cluster *c, enum cluster_action_kind kind);
void action_log(struct cluster *c, const char *what, uint64_t workload, int attempt,
                const char *node, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* `what` of the event log, spelled as a C identifier so that only listed words compile. */
#define EVENT(word, help) extern const char event_##word[];
#include "cluster/events.def"
#undef EVENT
/* No-op for a request of 0. */
void action_reply(struct cluster *c, uint64_t request, int result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* For attempts that are not a live workload's present one; a node that is away gets nothing. */
void action_send_stop(struct cluster *c, struct node *n, uint64_t workload, int attempt,
                      int64_t grace_ms);
void action_send_settle(struct cluster *c, struct node *n, uint64_t workload, int attempt);
/* Writes what is due for every touched workload. */
void actions_flush(struct cluster *c);

/* requirement.c */
/* The one for these needs, with one reference more. NULL: out of memory. */
struct requirement *requirement_get(struct cluster *c, const struct workload_needs *needs,
                                    const struct pairs *labels, uint32_t kind, uint32_t allowance);
void requirement_put(struct cluster *c, struct requirement *r);
/* Deep copy that the caller frees with labels_free; -ERR_NO_MEMORY. */
int labels_copy(const struct pairs *from, struct pairs *ret);
void labels_free(struct pairs *labels);
bool labels_equal(const struct pairs *a, const struct pairs *b);

/* queue.c */
/* To be called whenever a queued workload may have become ready to start. */
void queue_consider(struct cluster *c, struct workload *w);
void queue_leave(struct cluster *c, struct workload *w);
/* Room appeared somewhere: what did not fit may fit now. */
void queue_room_appeared(struct cluster *c);
/* Places what fits. */
void queue_run(struct cluster *c);
/* As a policy sees it. */
struct policy_waiting queue_waiting(const struct cluster *c, const struct workload *w);
/* When it is the turn of one that was submitted then, as if a time. left_ms 0: not known. */
double queue_rank_ms(const struct cluster *c, int64_t submitted_wall_ms, int priority,
                     double left_ms);
/* Asks the policy about snapshot->waiting[0]. Refused at once if its allowance is spent. */
enum policy_verdict queue_decide(struct cluster *c, const struct policy_snapshot *snapshot,
                                 uint32_t allowance, struct place_outcome *ret_outcome);
/* Why snapshot->waiting[0] does not start, by this verdict or because its allowance is spent. True:
 * nothing that is here will ever do for it. */
bool queue_explain_refusal(struct cluster *c, const struct policy_snapshot *snapshot,
                           uint32_t allowance, enum policy_verdict verdict,
                           char text[WORKLOAD_TEXT_MAX]);
/* It may be placed where it was better to wait. */
void queue_requirement_tick(struct cluster *c, struct requirement *r);
/* Sets its status' text to why it waits, if that is known. */
void queue_explain(struct cluster *c, struct workload *w);
bool queue_requirement_before(const struct heap_member *a, const struct heap_member *b);
bool queue_workload_before(const struct heap_member *a, const struct heap_member *b);

/* Those with this allowance may have come to stand elsewhere in the order. */
void queue_order_changed(struct cluster *c, uint32_t allowance);

/* keep.c */
/* Would one of this rank go before the one that devices are kept for, or is it that one? */
bool keep_yields(const struct cluster *c, bool borrows, double rank_ms, uint64_t workload);
/* snapshot->waiting[0], which is this one, was refused: if there is no room, and it is its turn,
 * some is kept. */
void keep_refused(struct cluster *c, struct workload *w, const struct policy_snapshot *snapshot);
/* Nothing is kept any more. */
void keep_end(struct cluster *c);
/* The same when the devices are made anew, or everything goes. */
void keep_forget(struct cluster *c);
/* Adds to the text of a refusal what is kept for it. */
void keep_explain(const struct cluster *c, const struct requirement *r,
                  char text[WORKLOAD_TEXT_MAX]);

/* allowance.c */
/* What one with these needs holds. */
int64_t allowance_ppm(const struct cluster *c, const struct workload_needs *needs);
/* Would the next of these be beyond what is guaranteed? */
bool allowance_borrows(const struct cluster *c, uint32_t number,
                       const struct workload_needs *needs);
/* Or beyond what the allowance gives at all? */
bool allowance_is_spent(const struct cluster *c, uint32_t number,
                        const struct workload_needs *needs);
/* Says so, of one that is spent. True: it is even when nothing of it is in use. */
bool allowance_explain(const struct cluster *c, uint32_t number, const struct workload_needs *needs,
                       char text[WORKLOAD_TEXT_MAX]);
void allowance_charge(struct cluster *c, struct workload *w);
void allowance_discharge(struct cluster *c, struct workload *w);
/* It found no room: if that is guaranteed to it, a borrower makes some. */
void allowance_reclaim(struct cluster *c, const struct policy_snapshot *snapshot,
                       const struct policy_waiting *waiting, const struct requirement *r);

/* rounds.c */
bool rounds_are_held(const struct cluster *c);
/* Sets the time of the next round, if there is to be one. */
void rounds_arm(struct cluster *c);
/* No-op unless it is due. */
void rounds_run(struct cluster *c);
/* One that was stopped to be moved: where it should go, if there is room. */
bool rounds_place_wished(struct cluster *c, struct workload *w);

/* depend.c */
/* Of an array that the workload has been given. */
void depend_link(struct cluster *c, struct workload *w);
/* It waits for nothing any more; frees the array. */
void depend_unlink(struct cluster *c, struct workload *w);
/* Tells the dependents of everything that ended. */
void depend_settle(struct cluster *c);
/* Ends it: `on` did not succeed. */
void depend_fail(struct cluster *c, struct workload *w, uint64_t on);
void depend_explain(const struct workload *w, char text[WORKLOAD_TEXT_MAX]);

/* attempts.c */
void attempt_open(struct cluster *c, struct workload *w, const struct policy_decision *decision);
/* A node's word on one attempt of the current session. */
void attempt_report(struct cluster *c, struct node *n, const struct attempt_report *report);
/* Its node is given up, or the user gave it up: closes the attempt and does what its end means. */
void attempt_lose(struct cluster *c, struct workload *w);
/* Puts a loaded open attempt on its node. */
void attempt_attach(struct cluster *c, struct workload *w, struct node *n);
void workload_tick(struct cluster *c, struct workload *w);

/* stop.c */
/* The live workload that the event speaks of; NULL after a reply that says why there is none. */
struct workload *stop_target(struct cluster *c, const struct cluster_event *event);
void stop_cancel(struct cluster *c, const struct cluster_event *event);
void stop_requeue(struct cluster *c, const struct cluster_event *event);
/* Ends a running one, to start it again elsewhere. */
void stop_move(struct cluster *c, struct workload *w);
/* Ends one that is much slower than expected. */
void stop_misplaced(struct cluster *c, struct workload *w);
void stop_stranded(struct cluster *c, struct workload *w);
/* Ends one that borrowed. */
void stop_reclaim(struct cluster *c, struct workload *w);

/* suspend.c */
void suspend_user(struct cluster *c, const struct cluster_event *event);
void resume_user(struct cluster *c, const struct cluster_event *event);
/* What a report says of it being suspended. */
void suspend_report(struct cluster *c, struct workload *w, const struct attempt_report *report);
void suspend_tick(struct cluster *c, struct workload *w);
/* A loaded one. */
void suspend_load(struct cluster *c, struct workload *w);
/* Brings back what fits. Before the queue is served: what has begun goes first. */
void suspend_run(struct cluster *c);

/* submit.c */
void submit_handle(struct cluster *c, const struct cluster_event *event);
/* Could it be taken now? 0, or why not. */
int submit_check(struct error *e, const struct cluster *c, const struct cluster_submission *items,
                 size_t count);
struct submit_key *submit_key_find(const struct cluster *c, uint32_t uid, const char *key);
/* NULL: out of memory (cluster.failed is set), or the hash is another key's, once in 2^64: then
 * the submission goes without one. */
struct submit_key *submit_key_add(struct cluster *c, uint32_t uid, const char *key, uint64_t first,
                                  size_t count);
/* Drops one reference. */
void submit_key_put(struct cluster *c, struct submit_key *key);

/* nodes.c */
struct node *node_find(const struct cluster *c, const char *name);
/* NULL: out of memory. */
struct node *node_add(struct cluster *c, const char *name);
void node_free(struct node *n);
/* 0 or -ERR_NO_MEMORY. */
int node_set_info(struct node *n, const struct node_info *info);
void node_hello(struct cluster *c, const struct cluster_event *event);
void node_message(struct cluster *c, const struct cluster_event *event);
void node_drain(struct cluster *c, const struct cluster_event *event);
void node_tick(struct cluster *c, struct node *n);
/* The node's word on its devices. */
void node_health(struct cluster *c, struct node *n, const struct device_health *health,
                 size_t count);
/* Sets the timer for what happens next if nothing is heard. */
void node_set_timer(struct cluster *c, struct node *n);

/* doubt.c */
/* It could not be started there; its attempt is closed. Is it to be tried elsewhere, and
 * not counted? */
bool doubt_failed(struct cluster *c, struct workload *w, struct node *n);
/* It runs where it is. */
void doubt_worked(struct cluster *c, struct workload *w);
/* There is nothing against the node any more. */
void doubt_end(struct cluster *c, struct node *n);
void doubt_tick(struct cluster *c, struct node *n);

/* inventory.c */
/* After a node appeared or its devices changed. 0 or -ERR_NO_MEMORY. */
int inventory_rebuild(struct cluster *c);
/* After a node's connection, drained mark or number of attempts changed. */
void inventory_refresh_node(struct cluster *c, struct node *n);
void inventory_book(struct cluster *c, struct workload *w);
/* The devices of its open attempt that its node still has; returns how many. */
size_t inventory_devices(const struct cluster *c, const struct workload *w,
                         size_t ret_devices[WORKLOAD_DEVICES_MAX]);
/* No-op for one that is not booked. */
void inventory_release(struct cluster *c, struct workload *w);
/* What is said of this device has changed. */
void inventory_device_changed(struct cluster *c, size_t device);
/* What the fleet knows by the forecast is to be asked anew. */
void inventory_forecast_changed(struct cluster *c);
/* Everything that a policy sees but who waits; the fleet is up to date. */
void inventory_snapshot(struct cluster *c, struct policy_snapshot *ret);

/* finished.c */
void finished_init(struct finished_rows *f);
void finished_done(struct finished_rows *f);
/* 0 or -ERR_NO_MEMORY. Takes over the reference to key. Before finished_sort: by_id is not kept. */
int finished_add(struct cluster *c, const struct finished *row, bool loading);
int finished_sort(struct cluster *c);
const struct finished *finished_find(const struct cluster *c, uint64_t id);
/* At every step: whether the wall clock keeps pace with the boot clock. */
void finished_watch_clock(struct cluster *c);
/* Deletes what retention no longer wants, a bounded number a step. */
void finished_prune(struct cluster *c);
