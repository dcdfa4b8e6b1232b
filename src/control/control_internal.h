/*
 * Declarations inside control/. Everything runs on the loop thread, except the commit itself
 * (committer.h).
 *
 *   control.c    life, steps of the cluster, the two stages of its actions
 *   load.c       building a cluster from the store
 *   link.c       connections of nodes
 *   network.c    listening on the network, and certificates
 *   authority.c  the certificate authority
 *   access.c     identities of callers and their rights
 *   tokens.c     tokens and their routes
 *   join.c       POST /v1/join
 *   submit.c     POST /v1/workloads
 *   workloads.c  the other routes of workloads
 *   logs.c       output, read from its node
 *   watch.c      events, live
 *   nodes.c      routes of nodes, version, health, metrics
 *   show.c       objects of the API as JSON
 *   programs.c   the program of a workload, and measurements of the program alone
 *   learning.c   measurements of programs, and the forecast
 *   keeper.c     saving the measurements, and training models
 *   teach.c      passing reports of nodes to learning.c, and the results to the cluster
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "cluster/cluster.h"
#include "control/committer.h"
#include "control/control.h"
#include "control/keeper.h"
#include "control/learning.h"
#include "endpoint/auth.h"
#include "endpoint/http.h"
#include "store/store.h"
#include "tls/token.h"
#include "wire/nodemsg.h"

struct address;
struct authority;
struct bufferevent;
struct certificate_facts;
struct event;
struct evconnlistener;
struct json_writer;
struct tls_context;

enum {
    REPLY_TIMEOUT_MS = 30000, /* longest wait for a node's answer; control then gives up */
    CONTROL_PATH_MAX = 4096,
    TOKENS_MAX = 4096,
};

/* A stage-2 action that waits for its commit, with copies of the cluster's data to which the action
 * refers. */
struct deferred {
    struct list link;
    struct cluster_action action;
    char node[NODE_NAME_MAX];
    struct attempt placed;
};

/* A log line that waits for the commit of its event. */
struct log_line {
    struct list link;
    const char *message;
    char fields[];
};

/* Steps that one commit will make durable, and the actions that follow the commit. */
struct round {
    struct store_batch *batch;
    size_t requests;      /* number of requests that get a response after the commit */
    struct list deferred; /* list of struct deferred */
    struct list lines;    /* list of struct log_line */
};

/* A request that waits for a CLUSTER_REPLY, or for a node's answer. */
struct waiter;
typedef void (*waiter_reply)(struct waiter *w, const struct cluster_action *reply);
typedef void (*waiter_answer)(struct waiter *w, const struct nodemsg *answer);
struct waiter {
    struct list link; /* in control.waiters */
    struct control *control;
    uint64_t request; /* key in control.requests */
    int64_t since_boot_ms;
    struct http_request *http; /* owned until the response */
    waiter_reply on_reply;     /* receives the cluster's reply; may be NULL */
    waiter_answer on_answer;   /* receives a node's answer; a NULL message means that no answer will
                                * come */
    struct node_link *asked;   /* link to the node that is to answer */
    uint64_t workload;
    void *arg;
};

struct token {
    struct list link; /* in control.tokens */
    uint64_t id;
    char hash[TOKEN_HASH_TEXT_MAX];
    bool for_node; /* true: lets one node join; false: has a role */
    enum http_role role;
    char account[USER_NAME_MAX]; /* account of the token, or the only allowed name of the node; "":
                                  * any name */
    char creator[USER_NAME_MAX];
    int64_t created_wall_ms, expires_wall_ms;
    int64_t expired_boot_ms; /* time at which the expiry was noticed; 0: not expired */
    bool told;               /* the expiry was logged */
    bool revoked;            /* revoked in memory, not yet durably */
};

struct control {
    struct event_base *base;
    const struct log *log;
    const struct config *config;
    char directory[CONTROL_PATH_MAX];
    struct cluster_config cluster_config;
    struct cluster_allowance *allowances; /* part of cluster_config; owned */
    struct cluster *cluster;              /* NULL: not rebuilt yet; control then accepts nothing */
    struct cluster_actions actions;
    struct learning *learning; /* source of cluster_config.forecast */
    struct keeper *keeper;
    int64_t forecast_due_boot_ms; /* time before which the cluster gets no new forecast */
    /* Time before which no program is forgotten to make room for another. */
    int64_t room_due_boot_ms;
    struct store *store;
    struct committer *committer;
    struct round filling;
    struct list committing;       /* list of struct deferred of the batch in flight */
    struct list committing_lines; /* list of struct log_line of the batch in flight */
    size_t committing_requests;
    int64_t committing_since_us;
    size_t gather_target; /* > 0: the next commit waits for this many requests, or for the timer
                           * `gather` */
    struct http_server *http;
    struct auth *auth;
    struct authority *authority; /* NULL without a network; tls and tls_due are then NULL too */
    struct tls_context *tls;
    struct event *tls_due; /* timer for renewing control's own certificate */
    uint16_t port;
    struct list tokens;   /* list of struct token */
    struct list joinings; /* list of struct joining, see join.c */
    uint64_t token_last;
    struct event *token_due; /* timer for the next expiry of a token */
    struct evconnlistener *node_listener;
    struct event *listen_again;  /* timer to accept nodes again, after accept() failed */
    struct list links;           /* list of struct node_link */
    struct list partings;        /* list of struct parting, see link.c */
    struct list broken_sessions; /* sessions broken while stalled, see link.c */
    struct hash_map links_by_session;
    struct list watchers; /* list of struct watcher */
    struct list log_streams;
    struct list waiters;
    struct hash_map requests; /* request number → struct waiter */
    uint64_t request_last;
    struct event *flush, *tick, *retry, *gather;
    int64_t tick_due_boot_ms;
    bool stalled; /* nothing could be stored since stalled_since_boot_ms; see control.c */
    int64_t stalled_since_boot_ms;
    struct error stall_error;
    const struct submission *submitting; /* submission in a SUBMIT step */
    int64_t started_boot_ms;
    uint64_t steps, commits_failed, rebuilds;
};

/* The data of a submission that CLUSTER_STORE_NEW needs during its step. */
struct submission_item {
    const struct workload_spec *spec;
    const char *name;
    int array_index; /* -1: not in an array */
    const char *spec_json;
    size_t after_count;
    struct cluster_after *after;
};
struct submission {
    uint32_t uid; /* uid of the submitter, or UID_BY_NAME */
    const char *user;
    bool is_admin;
    const char *key;
    size_t count;
    struct submission_item *items;
};

/* control.c */
/* Steps the cluster, and adds the resulting actions to the filling round; sets event->now. Returns
 * 0, or -ERR_UNAVAILABLE without a step and without a reply if there is no cluster. While stalled,
 * the reply carries the store's error; without a waiter the call returns -ERR_UNAVAILABLE. */
int control_step(struct control *c, struct cluster_event *event);
/* Commits additions to the filling round that come from no step of the cluster; `booked` is the
 * result of these additions. The waiter w (may be NULL) gets its reply after the commit. Returns 0,
 * or -ERR_NO_MEMORY if an addition is missing: the round is dropped as after a failed commit, and
 * the caller keeps w. */
int control_commit(struct control *c, struct waiter *w, int booked);
/* Writes a log line at LOG_INFO once the filling round is durable; drops the line if the commit
 * fails. The message is borrowed until then. Returns 0 or -ERR_NO_MEMORY. */
int control_log_later(struct control *c, const char *message, const char *fields, ...)
    __attribute__((format(printf, 3, 4)));
/* Registers a waiter for `http`; its number goes into the event. Returns NULL when out of
 * memory. */
struct waiter *waiter_new(struct control *c, struct http_request *http);
void waiter_free(struct waiter *w);
/* Answers with the error if result is negative, else with the JSON; frees the JSON. */
void answer_json(struct http_request *r, int result, const struct error *e, int status,
                 struct str *json);
/* Answers with the error of the cluster's reply. */
void answer_refused(struct http_request *r, const struct cluster_action *a);
/* Sends an order to a node; the node's result becomes the response to the request. On an error
 * nothing was sent, and the caller responds. */
int waiter_pass_on(struct error *e, struct control *c, struct http_request *http, const char *node,
                   struct nodemsg *msg);

/* load.c */
int control_load_cluster(struct error *e, struct control *c, struct cluster **ret);
/* Writes the status text for a workload whose stored record cannot be read. */
void control_say_unreadable(const struct error *why, char text[WORKLOAD_TEXT_MAX]);

/* configuration.c */
/* Converts the configuration for the cluster. The caller frees *ret_allowances, which *ret
 * borrows. */
int configuration_read(struct error *e, const struct config *config, struct cluster_config *ret,
                       struct cluster_allowance **ret_allowances);

/* allowances.c */
/* Reads the allowances of the configuration. The caller frees *ret. */
int allowances_read(struct error *e, const struct pairs *pairs, struct cluster_allowance **ret);
/* Returns the number of the user's own allowance, or of one of the user's groups; 0: none. */
uint32_t allowances_find(const struct control *c, const char *user);

/* teach.c */
struct node_link;
/* Returns the facts of a user's spec that policies need, for this cluster. */
struct policy_known control_known(struct control *c, const struct cluster *cluster,
                                  const char *user, const struct workload_spec *spec);
/* Returns the lowest latency in ms that the service reached alone on a device, according to earlier
 * attempts; 0: unknown, or a spec without SLO. */
double control_alone_ms(const struct control *c, const char *user,
                        const struct workload_spec *spec);
/* Passes a node's report of one device to learning. The link lists the device's attempts. */
void control_learn(struct control *c, const struct node_link *link, const char *node,
                   const struct device_usage *usage, const struct forecast_device *type);
/* Updates the forecast and forgets programs; to be called about every second. */
void control_learn_tick(struct control *c, int64_t now_boot_ms);

/* link.c */
int links_listen(struct error *e, struct control *c, const char *path);
/* Starts a link on a connection from which a hello is expected. The node is authenticated by its
 * certificate, or trusted without a certificate (NULL). The call owns the stream, also on
 * failure. */
int links_take(struct control *c, struct bufferevent *stream,
               const struct certificate_facts *certificate);
/* Closes all links; after the cluster is rebuilt every node must send a hello again. */
void links_close_all(struct control *c);
/* Closes the links of sessions that the cluster has ended, because the devices of their nodes may
 * be granted to other workloads. */
void links_end_strangers(struct control *c);
/* Carries out an action SEND_*. */
void links_send(struct control *c, const struct deferred *d);
/* Closes the link of a node whose event the cluster refused; the node then sends a hello again. */
void links_refuse(struct control *c, const struct cluster_action *reply);
/* Returns the open link of a node, or NULL. */
struct node_link *links_find(struct control *c, const char *node);
/* Visits the latest reported usage of every attempt. */
void links_visit_usage(const struct control *c,
                       void (*visit)(void *arg, const char *node,
                                     const struct attempt_usage *usage),
                       void *arg);
/* Sends a request to the node; w waits for the answer. Returns 0, or -ERR_UNAVAILABLE if the
 * request cannot be sent. */
int link_ask(struct node_link *link, struct waiter *w, struct nodemsg *msg);
const struct device_usage *link_device_usage(const struct node_link *link, const char *uuid);
const struct attempt_usage *link_attempt_usage(const struct node_link *link, uint64_t workload,
                                               int attempt);

/* network.c */
/* Listens on the network. Returns 0, an error, or -ERR_NOT_FOUND if `control init` has not been
 * run. */
int network_listen(struct error *e, struct control *c, const struct address *at);
/* Releases the authority and TLS; to be called after http_server_free(). */
void network_done(struct control *c);
/* Issues a certificate for a node of that name, with the configured lifetime. */
int network_issue(struct error *e, const struct control *c, const char *request, const char *name,
                  struct str *ret_certificate);
/* Returns the time in ms after which a node should renew its certificate, valid until
 * until_wall_ms. */
int64_t network_renew_ms(const struct control *c, int64_t until_wall_ms);

/* submit.c, workloads.c, logs.c, watch.c, nodes.c: handlers of the routes */
void handle_submit(void *context, struct http_request *r);
void handle_list(void *context, struct http_request *r);
void handle_get(void *context, struct http_request *r);
void handle_explain(void *context, struct http_request *r);
void handle_cancel(void *context, struct http_request *r);
void handle_requeue(void *context, struct http_request *r);
void handle_suspend(void *context, struct http_request *r);
void handle_advise(void *context, struct http_request *r);
void handle_resume(void *context, struct http_request *r);
void handle_signal(void *context, struct http_request *r);
void handle_input(void *context, struct http_request *r);
void handle_logs(void *context, struct http_request *r);
void handle_events(void *context, struct http_request *r);
void handle_nodes(void *context, struct http_request *r);
void handle_node(void *context, struct http_request *r);
void handle_drain(void *context, struct http_request *r);
void handle_undrain(void *context, struct http_request *r);
void handle_enable(void *context, struct http_request *r);
void handle_disable(void *context, struct http_request *r);
void handle_version(void *context, struct http_request *r);
void handle_healthz(void *context, struct http_request *r);
void handle_readyz(void *context, struct http_request *r);
void handle_metrics(void *context, struct http_request *r);
/* Returns false once the metrics of attempts are so long that the response needs the room for other
 * metrics. */
bool metrics_have_room(const struct str *out);
/* Appends the metrics of services with a controller. */
void service_metrics_write(struct control *c, struct str *out);

void handle_join(void *context, struct http_request *r);
void handle_tokens(void *context, struct http_request *r);
void handle_token_create(void *context, struct http_request *r);
void handle_token_revoke(void *context, struct http_request *r);

/* access.c */
int control_authorize(struct error *e, void *context, const struct http_request *r,
                      enum http_role least, struct http_peer *peer);
bool control_is_admin(const struct control *c, const struct http_request *r);
/* Returns whether the caller may change workloads of the owner and read their output. */
bool control_may(const struct control *c, const struct http_request *r,
                 const struct store_owner *owner);
/* Returns the owner of the caller's submissions. The name is valid until the next lookup of an
 * account. */
struct store_owner control_caller(const struct control *c, const struct http_request *r);
/* Returns the owner's number in the cluster; accounts known only by name share a uid. */
uint64_t control_owner_number(uint32_t uid, const char *user);
const char *control_role_name(enum http_role role);
/* Parses a role that a token can have. */
bool control_role_parse(const char *text, enum http_role *ret);

/* tokens.c */
/* Reads all tokens from the store, at the start and after a failed commit. */
int tokens_load(struct error *e, struct control *c);
void tokens_done(struct control *c);
/* Returns the API token with this text if it is valid now, else NULL. The result is valid until the
 * loop's next turn. */
const struct token *tokens_find(struct control *c, const char *text);
/* Checks whether a node of this name may join with this token; *ret_named: the token is restricted
 * to this name. Returns 0, -ERR_UNAUTHENTICATED, or -ERR_DENIED if the token is for another
 * name. */
int tokens_check_join(struct error *e, struct control *c, const char *text, const char *node,
                      bool *ret_named);
/*
 * Marks the token as used, and refuses further uses at once. w gets its reply when the use is
 * durable, together with earlier additions to the round (`booked` is their result); only then may
 * the node join. Returns -ERR_NO_MEMORY as control_commit() does, or the errors of
 * tokens_check_join(); after an error the token stays unused.
 */
int tokens_take_join(struct error *e, struct control *c, const char *text, const char *node,
                     struct waiter *w, int booked);
/* Finds the workload of {ref}: an id, or the newest workload of that name; the caller's own
 * workloads take precedence. Returns 0, -ERR_NOT_FOUND, or -ERR_CONFLICT if the name belongs to an
 * array. */
int control_resolve(struct error *e, struct control *c, const struct http_request *r,
                    uint64_t *ret_id);
int control_resolve_ref(struct error *e, struct control *c, const struct http_request *r,
                        const char *ref, uint64_t *ret_id);
/* Parse a number from a query parameter or a text. *ret is unchanged if the parameter is absent. */
int control_query_number(struct error *e, const struct http_request *r, const char *name,
                         uint64_t least, uint64_t most, uint64_t *ret);
int control_number(struct error *e, const char *field, const char *text, uint64_t least,
                   uint64_t most, uint64_t *ret);

/* The place of an attempt. wanted 0 is the newest attempt; attempt 0 means that the workload has no
 * attempt. */
struct located {
    uint32_t uid;
    char user[USER_NAME_MAX];
    int attempt;
    bool open;     /* the attempt has not ended */
    bool lost;     /* the attempt was given up with its node */
    bool terminal; /* the workload has ended */
    char node[NODE_NAME_MAX];
    char text[WORKLOAD_TEXT_MAX]; /* text of the workload's status */
};
int control_locate(struct error *e, struct control *c, uint64_t workload, int wanted,
                   struct located *ret);

/* show.c: objects of the API as JSON */
struct show_options {
    bool detail;  /* with spec, attempts and dependencies */
    bool secrets; /* with the values of the environment */
};
/* The last parsed spec, for rows without a summary: the elements of an array share a spec. Must be
 * zeroed before the first row. */
struct shown_spec {
    struct arena arena;
    uint64_t id; /* 0: none, or the spec cannot be read */
    struct workload_spec spec;
    struct str summary;
    size_t bytes; /* bytes of all specs parsed so far */
};
void shown_spec_done(struct shown_spec *shown);
/* Replaces the stored text of a queued workload, written when the state last changed, by the
 * present reason for waiting. Leaves the text of any other workload. */
void control_refresh_note(struct control *c, uint64_t id, char text[WORKLOAD_TEXT_MAX]);
int show_workload(struct error *e, struct control *c, struct str *out,
                  const struct store_workload *row, const struct show_options *options,
                  struct shown_spec *shown);
/* Writes `devices`, the UUIDs of devices on a node, and `device_names`, their names for people. */
void show_device_list(struct json_writer *w, const struct control *c, const char *node,
                      const char (*devices)[DEVICE_UUID_MAX], int count);
void show_event(struct str *out, const struct store_event *event);
void show_node(struct control *c, struct str *out, const char *name, bool drained,
               const struct node_info *info);

/* watch.c: to be called after a commit that may have written events */
void watchers_wake(struct control *c);
void watchers_close_all(struct control *c);
/* logs.c */
void log_streams_close_all(struct control *c);
