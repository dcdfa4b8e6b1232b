/*
 * Internals of the cluster. The structs:
 *
 *   workload      a live workload, owned by cluster.live (by id). From its end until the next step
 *                 the workload is in cluster.buried, because actions point to the workload
 *   requirement   the properties that determine placement, shared by all workloads with the same
 *                 properties: if one workload does not fit now, none of them does. The queue of
 *                 a requirement lists its workloads that may start
 *   node          known forever once seen; lists the workloads with an open attempt on the node
 *   finished      a row of 32 bytes for each retained ended workload
 *
 * A step first changes memory and collects pending actions (workload.touched). At its end, the step
 * writes one STORE action for each changed workload and then the SENDs, so no workload is stored
 * twice.
 *
 * Running out of memory sets cluster.failed. All structures stay safe to walk and free, the step
 * returns -ERR_NO_MEMORY, and the caller rebuilds the cluster.
 */
#pragma once
#include "base/hash.h"
#include "base/list.h"
#include "cluster/cluster.h"
#include "cluster/heap.h"
#include "policy/place.h"

/* Number of remembered device changes, a power of two. A requirement that missed more changes
 * examines all devices. */
enum { CHANGES_KEPT = 64 };

enum timer_owner { TIMER_WORKLOAD, TIMER_NODE, TIMER_RETENTION, TIMER_REQUIREMENT, TIMER_ROUND };

struct timer {
    struct heap_member member;
    int64_t due_boot_ms;
    enum timer_owner owner;
};

struct requirement {
    struct heap_member ready; /* in cluster.ready: the first workload may fit somewhere */
    struct list refused;      /* in cluster.refused: refused since devices last became free */
    struct heap queue;        /* of workloads: smaller rank_ms first, then smaller id */
    struct requirement *next; /* next with the same hash */
    uint64_t hash;
    size_t references;
    struct workload_needs needs; /* fields relevant to placement; others are zero */
    struct pairs node_labels;    /* owned */
    uint32_t kind;               /* kind in the forecast */
    uint32_t allowance;          /* 0: none */
    bool borrows;                /* the next workload would exceed the guaranteed allowance */
    /* The policy refused all devices, so only devices that changed since need examination. */
    bool asked;
    double best_score;  /* best score at that refusal; −INFINITY: none */
    uint64_t seen;      /* value of cluster.changes at that refusal */
    bool could;         /* refused although a device was acceptable, because waiting is better */
    struct timer timer; /* end of the wait for a better device; the workload is then placed */
    uint64_t explained; /* value of cluster.facts when text was written; 0: no text */
    bool never;         /* according to text, no present node can ever satisfy these needs */
    char text[WORKLOAD_TEXT_MAX];
};

/* The waiter may start after `on` has ended or, with `succeeded`, has succeeded. */
struct dependency {
    struct list among_dependents; /* in the live workload `on`, until its end */
    struct workload *waiter;
    uint64_t on;
    bool succeeded, met;
};

/* A client's idempotency key, as two hashes of uid and key; kept as long as any workload of that
 * submission. */
struct submit_key {
    uint64_t hash, check;
    uint64_t first;
    size_t count, references;
};

/* An owner of live workloads, and their number. */
struct owner {
    uint64_t number;
    size_t live;
};

struct workload {
    uint64_t id;
    struct owner *owner; /* NULL: the workload has ended */
    struct workload_needs needs;
    struct policy_known known; /* alone_ms as of the start or of the last update */
    double left_ms;            /* remaining time when last booked or released; 0: unknown */
    int64_t booked_boot_ms;
    struct requirement *requirement;
    struct workload_status status; /* attempts owned */
    struct submit_key *key;        /* or NULL */

    /* Queued workloads: */
    struct heap_member queued; /* in requirement->queue */
    size_t dependency_count, unmet_count;
    struct dependency *dependencies; /* owned */
    struct list dependents;          /* dependencies of others on this workload */
    int64_t queued_boot_ms;          /* start of the wait */
    double rank_ms;                  /* smaller goes first; computed on entry into the queue */
    /* Dependency found failed during loading, reported at the first tick; 0: none. */
    uint64_t dependency_failed;

    /* Workloads with an open attempt: */
    struct node *node; /* NULL: no open attempt */
    struct list on_node;
    enum attempt_phase phase; /* as last reported; ATTEMPT_PHASE_END: not confirmed */
    bool booked;              /* booked on its devices in the inventory */
    int64_t charged_ppm;      /* charged to the allowance */
    /* The node's hello did not list the attempt; the cluster sent a stop, in case the attempt still
     * runs. */
    bool forgotten;
    bool listed;             /* temporary, during a hello */
    int64_t running_boot_ms; /* start of running; 0: not running */
    int64_t stop_grace_ms;
    struct list held;        /* in cluster.held */
    int64_t resume_again_ms; /* delay after the last failed resume; 0: none failed */
    /* Destination of a stopped workload that moves: node and index of its device; or NULL. */
    struct node *wish_node;
    size_t wish_device;
    bool reclaimed;             /* stopped because it borrowed */
    bool misplaced;             /* stopped because it is much slower than predicted */
    bool stranded;              /* stopped because it cannot return to its device */
    int64_t misplaced_since_ms; /* 0: not misplaced */
    double measured_pd;         /* on the present devices; 0: not measured */
    double predicted_pd;        /* on the present devices */
    bool is_slowness_told;
    int advice_heard; /* newest advice that the node of the open attempt has received */

    struct timer timer; /* back-off, or repeat of an unconfirmed send */

    /* Pending actions for the end of this step: */
    struct list touched;
    bool is_new, store_due, grant_due, stop_due, turn_due, advice_due;
    size_t item; /* index in the submission; valid if is_new */
};

struct node {
    struct node_info info;                         /* labels owned */
    struct device_health health[NODE_DEVICES_MAX]; /* indexed like info.devices */
    size_t index;                                  /* in cluster.nodes */
    bool drained, connected, lost;
    bool doubtful; /* a start failed on this node */
    /* Accepts no new work, because starts failed repeatedly. */
    bool held;
    /* Starts that failed on this node and succeeded on another. */
    int strikes;
    int64_t doubt_ms, doubted_until_boot_ms; /* duration of the doubt, doubled each time */
    uint64_t session, sequence;
    int64_t heard_boot_ms;
    struct list open; /* workloads with an open attempt on this node */
    size_t open_count, cpu_only_count;
    /* Due when the node is silent, then when it is lost; may fire early, never late. */
    struct timer timer;
};

struct finished {
    uint64_t id;
    int64_t ended_wall_ms;
    struct submit_key *key;
    enum workload_state state;
};

/* Ended workloads, oldest end first. Row indices only grow; rows[0] has index `base`. */
struct finished_rows {
    struct finished *rows;
    size_t first, count, capacity; /* valid rows: [first, first + count) */
    size_t base;
    struct hash_map by_id; /* id → index + 1 */
    struct timer timer;
    int64_t steady_boot_ms; /* time since which the wall clock has kept pace with the boot clock */
    int64_t wall_ahead_ms;  /* lead of the wall clock over the boot clock since steady_boot_ms */
};

struct cluster {
    struct cluster_config config;
    bool failed;
    struct clock_now now;
    struct cluster_actions *actions; /* of the current step */
    uint64_t last_id, last_session, round;
    uint64_t decisions; /* decisions of the policy, including refusals */

    struct hash_map live;   /* id → workload */
    struct list touched;    /* workloads with actions pending for the end of the step */
    struct list ended;      /* ended in this step, dependents not yet notified */
    struct list buried;     /* ended; freed by the next step */
    struct list unlinked;   /* loaded, dependencies not yet linked */
    struct list held;       /* suspended workloads that return when there is room */
    bool held_due;          /* devices may have become free for `held` */
    struct hash_map keys;   /* submit_key.hash → submit_key */
    struct hash_map owners; /* number → owner */
    struct finished_rows finished;
    size_t dependency_count; /* unmet dependencies of all workloads */
    size_t by_state[WORKLOAD_STATE_END];

    struct hash_map requirements; /* hash → chain */
    struct heap ready;
    struct list refused;
    int64_t *allowance_used;  /* in ppm, by number; [0]: workloads without an allowance */
    uint64_t facts;           /* increases with every change that may affect a refusal's text */
    size_t explanations_left; /* new refusal texts allowed until the next step */
    struct workload *keeper;  /* queued workload for which devices are reserved; NULL: none */
    size_t kept[WORKLOAD_DEVICES_MAX], kept_count;
    size_t keeps_left; /* remaining searches for devices to reserve, in this run of the queue */

    struct node **nodes;
    size_t node_count, node_capacity;
    struct hash_map nodes_by_name;
    struct policy_node *policy_nodes; /* indexed like nodes */
    struct policy_device *policy_devices, *scratch;
    size_t device_count, device_capacity;
    uint64_t memory_max_bytes;    /* of the largest device */
    struct forecast cold;         /* used instead of config.forecast if the predictor is disabled */
    struct fleet fleet;           /* for policies with a `judge` function */
    bool judges;                  /* the policy has a `judge` function, so the fleet is in use */
    size_t changed[CHANGES_KEPT]; /* device of change i, at i modulo CHANGES_KEPT */
    uint64_t changes;
    bool fleet_stale; /* devices were added or removed: rebuild the fleet before its next use */
    struct timer round_timer;
    bool round_due;

    struct heap timers;
};

/* state.c */
struct workload *workload_find(const struct cluster *c, uint64_t id);
/* Adds a live workload, which the caller completes. Returns NULL if out of memory. */
struct workload *workload_add(struct cluster *c, uint64_t id, uint64_t owner,
                              const struct workload_needs *needs, const struct pairs *labels,
                              const struct policy_known *known, uint32_t allowance);
/* Updates the knowledge about one workload. */
void workload_learn(struct cluster *c, const struct cluster_event *event);
void workload_measured(struct cluster *c, const struct cluster_event *event);
/* Updates the kinds of all workloads whose programs have become known. */
void workload_forecast(struct cluster *c, const struct cluster_event *event);
void workload_free(struct cluster *c, struct workload *w);
void workload_set_state(struct cluster *c, struct workload *w, enum workload_state state);
void workload_set_text(struct workload *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Marks the status to be stored at the end of this step. */
void workload_touch(struct cluster *c, struct workload *w);
void workload_send_grant(struct cluster *c, struct workload *w);
void workload_send_stop(struct cluster *c, struct workload *w);
/* Sends the order to suspend or to resume, depending on the state. */
void workload_send_turn(struct cluster *c, struct workload *w);
void workload_send_advice(struct cluster *c, struct workload *w);
/* Sets or clears the suspect mark of a workload; fewer devices have room for a suspect. */
void workload_set_suspect(struct cluster *c, struct workload *w, bool suspect);
/* Marks a workload to avoid nodes with failed starts. The workload has no open attempt and is not
 * queued. */
void workload_set_wary(struct cluster *c, struct workload *w, bool wary);
/* Ends a workload, whose attempt must be closed. Its dependents are notified later in the step. */
void workload_end(struct cluster *c, struct workload *w, enum workload_state state,
                  enum failure_reason failure);
void timer_set(struct cluster *c, struct timer *t, int64_t due_boot_ms);
void timer_clear(struct cluster *c, struct timer *t);

/* actions.c */
/* Returns NULL if out of memory. */
struct cluster_action *action_add(struct cluster *c, enum cluster_action_kind kind);
void action_log(struct cluster *c, const char *what, uint64_t workload, int attempt,
                const char *node, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* Identifiers of the event words, so that only listed words compile. */
#define EVENT(word, help) extern const char event_##word[];
#include "cluster/events.def"
#undef EVENT
/* Reply to a request: result 0 without a text, or a negative result with its reason. Return NULL if
 * request is 0 or memory is short. */
struct cluster_action *action_accept(struct cluster *c, uint64_t request);
struct cluster_action *action_refuse(struct cluster *c, uint64_t request, int result,
                                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Send a node an order about one attempt, open or not. No-op if the node is not connected. */
void action_send_stop(struct cluster *c, struct node *n, uint64_t workload, int attempt,
                      int64_t grace_ms);
void action_send_settle(struct cluster *c, struct node *n, uint64_t workload, int attempt);
/* Writes the pending actions of every touched workload. */
void actions_flush(struct cluster *c);

/* requirement.c */
/* Returns the requirement for these needs and adds a reference. Returns NULL if out of memory. */
struct requirement *requirement_get(struct cluster *c, const struct workload_needs *needs,
                                    const struct pairs *labels, uint32_t kind, uint32_t allowance);
void requirement_put(struct cluster *c, struct requirement *r);
/* Makes a deep copy, which the caller frees with labels_free. Returns -ERR_NO_MEMORY. */
int labels_copy(const struct pairs *from, struct pairs *ret);
void labels_free(struct pairs *labels);
bool labels_equal(const struct pairs *a, const struct pairs *b);

/* queue.c */
/* Queues a workload if it can start; to be called after every change that may allow a start. */
void queue_consider(struct cluster *c, struct workload *w);
void queue_leave(struct cluster *c, struct workload *w);
/* Retries refused workloads after devices became free. */
void queue_room_appeared(struct cluster *c);
/* Places all workloads that fit. */
void queue_run(struct cluster *c);
/* Returns the description of a workload for a policy. */
struct policy_waiting queue_waiting(const struct cluster *c, const struct workload *w);
/* Returns the rank of a workload in the queue, in the form of a time; smaller goes first. left_ms
 * 0: unknown. */
double queue_rank_ms(const struct cluster *c, int64_t submitted_wall_ms, int priority,
                     double left_ms);
/* Asks the policy about snapshot->waiting[0]. Refuses at once if the allowance is spent. */
enum policy_verdict queue_decide(struct cluster *c, const struct policy_snapshot *snapshot,
                                 uint32_t allowance, struct place_outcome *ret_outcome);
/* Writes the reason why snapshot->waiting[0] does not start: this verdict, or a spent allowance.
 * Returns true if no present node can ever satisfy the workload. */
bool queue_explain_refusal(struct cluster *c, const struct policy_snapshot *snapshot,
                           uint32_t allowance, enum policy_verdict verdict,
                           char text[WORKLOAD_TEXT_MAX]);
/* Ends a wait for a better device: the policy may now place the requirement's workloads. */
void queue_requirement_tick(struct cluster *c, struct requirement *r);
/* Sets the status text to the reason of the wait, if known. */
void queue_explain(struct cluster *c, struct workload *w);
bool queue_requirement_before(const struct heap_member *a, const struct heap_member *b);
bool queue_workload_before(const struct heap_member *a, const struct heap_member *b);

/* Updates the order of all workloads with this allowance. */
void queue_order_changed(struct cluster *c, uint32_t allowance);

/* keep.c */
/* Returns whether a workload of this rank precedes the workload for which devices are reserved, or
 * is that workload. */
bool keep_yields(const struct cluster *c, bool borrows, double rank_ms, uint64_t workload);
/* Handles the refusal of `w`, which is snapshot->waiting[0]: reserves devices for `w` if no device
 * has room and `w` is next in order. */
void keep_refused(struct cluster *c, struct workload *w, const struct policy_snapshot *snapshot);
/* Ends the reservation of devices. */
void keep_end(struct cluster *c);
/* Forgets the reserved devices, when the devices are rebuilt or the cluster is freed. */
void keep_forget(struct cluster *c);
/* Appends to the text of a refusal the devices that are reserved for this requirement. */
void keep_explain(const struct cluster *c, const struct requirement *r,
                  char text[WORKLOAD_TEXT_MAX]);

/* allowance.c */
/* Returns the amount of the allowance that a workload with these needs uses. */
int64_t allowance_ppm(const struct cluster *c, const struct workload_needs *needs);
/* Returns whether one more of these workloads would exceed the guarantee. */
bool allowance_borrows(const struct cluster *c, uint32_t number,
                       const struct workload_needs *needs);
/* Returns whether one more of these workloads would exceed the maximum. */
bool allowance_is_spent(const struct cluster *c, uint32_t number,
                        const struct workload_needs *needs);
/* Explains a spent allowance. Returns true if the workload alone exceeds the whole allowance. */
bool allowance_explain(const struct cluster *c, uint32_t number, const struct workload_needs *needs,
                       char text[WORKLOAD_TEXT_MAX]);
void allowance_charge(struct cluster *c, struct workload *w);
void allowance_discharge(struct cluster *c, struct workload *w);
/* Frees devices for a workload that fits on none: if the workload is within its guarantee, stops a
 * borrower. */
void allowance_reclaim(struct cluster *c, const struct policy_snapshot *snapshot,
                       const struct policy_waiting *waiting, const struct requirement *r);

/* rounds.c */
bool rounds_are_held(const struct cluster *c);
/* Schedules the next round, if the policy has rounds. */
void rounds_arm(struct cluster *c);
/* Runs a round if one is due. */
void rounds_run(struct cluster *c);
/* Places a workload, stopped in order to move, on its destination device if there is room. */
bool rounds_place_wished(struct cluster *c, struct workload *w);

/* depend.c */
/* Registers the workload with each workload in w->dependencies. */
void depend_link(struct cluster *c, struct workload *w);
/* Unlinks the dependencies of a workload that no longer waits; frees the array. */
void depend_unlink(struct cluster *c, struct workload *w);
/* Notifies the dependents of all ended workloads. */
void depend_settle(struct cluster *c);
/* Ends the workload because `on` did not succeed. */
void depend_fail(struct cluster *c, struct workload *w, uint64_t on);
void depend_explain(const struct workload *w, char text[WORKLOAD_TEXT_MAX]);

/* attempts.c */
void attempt_open(struct cluster *c, struct workload *w, const struct policy_decision *decision);
/* Handles a node's report on one attempt of the current session. */
void attempt_report(struct cluster *c, struct node *n, const struct attempt_report *report);
/* Closes and handles the attempt of a lost node, or of a workload that the user gave up. */
void attempt_lose(struct cluster *c, struct workload *w);
/* Puts an open attempt on its node, after opening or loading it. */
void attempt_attach(struct cluster *c, struct workload *w, struct node *n);
void workload_tick(struct cluster *c, struct workload *w);

/* stop.c */
/* Returns the live workload of the event; NULL after replying with an error. */
struct workload *stop_target(struct cluster *c, const struct cluster_event *event);
void stop_cancel(struct cluster *c, const struct cluster_event *event);
void stop_requeue(struct cluster *c, const struct cluster_event *event);
/* Stops a running workload, to start it elsewhere. */
void stop_move(struct cluster *c, struct workload *w);
/* Stops a workload that is much slower than expected. */
void stop_misplaced(struct cluster *c, struct workload *w);
void stop_stranded(struct cluster *c, struct workload *w);
/* Stops a workload that borrowed. */
void stop_reclaim(struct cluster *c, struct workload *w);

/* suspend.c */
void suspend_user(struct cluster *c, const struct cluster_event *event);
void resume_user(struct cluster *c, const struct cluster_event *event);
/* Handles the suspension state in a report. */
void suspend_report(struct cluster *c, struct workload *w, const struct attempt_report *report);
void suspend_tick(struct cluster *c, struct workload *w);
/* Sets up the wait for room and the timer of a loaded workload. */
void suspend_load(struct cluster *c, struct workload *w);
/* Resumes suspended workloads that fit. Called before the queue is served, because started
 * workloads have precedence. */
void suspend_run(struct cluster *c);

/* advise.c */
void advise_user(struct cluster *c, const struct cluster_event *event);
/* Handles the number of the advice in a report. */
void advise_report(struct cluster *c, struct workload *w, const struct attempt_report *report);
/* Repeats advice that the node has not received. */
void advise_tick(struct cluster *c, struct workload *w);
/* Forgets the parts of the advice that concern the attempt that has ended. */
void advise_detach(struct workload *w);

/* submit.c */
void submit_handle(struct cluster *c, const struct cluster_event *event);
/* Returns 0 if the submission would be accepted now, or an error. */
int submit_check(struct error *e, const struct cluster *c, const struct cluster_submission *items,
                 size_t count);
struct submit_key *submit_key_find(const struct cluster *c, uint32_t uid, const char *key);
/* Returns NULL if out of memory (sets cluster.failed), or if the hash belongs to another key, with
 * a probability of 2^-64; the submission is then stored without a key. */
struct submit_key *submit_key_add(struct cluster *c, uint32_t uid, const char *key, uint64_t first,
                                  size_t count);
/* Drops one reference. */
void submit_key_put(struct cluster *c, struct submit_key *key);

/* nodes.c */
struct node *node_find(const struct cluster *c, const char *name);
/* Returns NULL if out of memory. */
struct node *node_add(struct cluster *c, const char *name);
void node_free(struct node *n);
/* Returns 0 or -ERR_NO_MEMORY. */
int node_set_info(struct node *n, const struct node_info *info);
void node_hello(struct cluster *c, const struct cluster_event *event);
void node_message(struct cluster *c, const struct cluster_event *event);
void node_drain(struct cluster *c, const struct cluster_event *event);
void node_tick(struct cluster *c, struct node *n);
/* Handles the node's report on its devices. */
void node_health(struct cluster *c, struct node *n, const struct device_health *health,
                 size_t count);
/* Sets the node's timer to the next action that is due if the node stays silent. */
void node_set_timer(struct cluster *c, struct node *n);

/* doubt.c */
/* Handles a failed start whose attempt is closed. Returns whether the workload should try another
 * node without counting the failure. */
bool doubt_failed(struct cluster *c, struct workload *w, struct node *n);
/* Handles a successful start. */
void doubt_worked(struct cluster *c, struct workload *w);
/* Removes all doubt about the node. */
void doubt_end(struct cluster *c, struct node *n);
void doubt_tick(struct cluster *c, struct node *n);

/* inventory.c */
/* Rebuilds the devices after a node appeared or its devices changed. Returns 0 or
 * -ERR_NO_MEMORY. */
int inventory_rebuild(struct cluster *c);
/* Updates a node in the inventory after its connection or drained mark changed. */
void inventory_refresh_node(struct cluster *c, struct node *n);
/* Counts an open attempt with these needs on the node; -1 uncounts it. */
void inventory_count(struct cluster *c, struct node *n, const struct workload_needs *needs,
                     int sign);
void inventory_book(struct cluster *c, struct workload *w);
/* Finds the devices of the open attempt that still exist on its node, and returns their number. */
size_t inventory_devices(const struct cluster *c, const struct workload *w,
                         size_t ret_devices[WORKLOAD_DEVICES_MAX]);
/* No-op for a workload that is not booked. */
void inventory_release(struct cluster *c, struct workload *w);
/* Updates a device in the inventory after its health or reservation changed. */
void inventory_device_changed(struct cluster *c, size_t device);
/* Recomputes the fleet's predictions from the forecast. */
void inventory_forecast_changed(struct cluster *c);
/* Fills a policy's snapshot except `waiting`, with an up-to-date fleet. */
void inventory_snapshot(struct cluster *c, struct policy_snapshot *ret);

/* finished.c */
void finished_init(struct finished_rows *f);
void finished_done(struct finished_rows *f);
/* Takes over the reference to key. Returns 0 or -ERR_NO_MEMORY. While loading, by_id is built by
 * finished_sort(). */
int finished_add(struct cluster *c, const struct finished *row, bool loading);
int finished_sort(struct cluster *c);
const struct finished *finished_find(const struct cluster *c, uint64_t id);
/* Checks at every step whether the wall clock keeps pace with the boot clock. */
void finished_watch_clock(struct cluster *c);
/* Deletes expired rows, a bounded number per step. */
void finished_prune(struct cluster *c);
