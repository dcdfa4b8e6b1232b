/*
 * Inside control/. Everything runs on the loop thread, except the commit itself (committer.h).
 *
 *   control.c    life, stepping the cluster, the two stages of its actions
 *   load.c       building a cluster from the store
 *   link.c       connections of nodes
 *   network.c    listening on the network, and certificates
 *   authority.c  who issues them
 *   access.c     who asks, and what they may
 *   tokens.c     tokens and their routes
 *   join.c       POST /v1/join
 *   submit.c     POST /v1/workloads
 *   workloads.c  the other routes of workloads
 *   logs.c       output, through the node that has it
 *   watch.c      events, live
 *   nodes.c      routes of nodes, version, health, metrics
 *   show.c       how things look as JSON
 *   programs.c   which program a workload runs, and what that is alone
 *   learning.c   what is learnt of programs, and the forecast
 *   keeper.c     keeping that over restarts, and training models
 *   teach.c      from the reports of nodes to learning.c, and from there to the cluster
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
struct tls_context;

enum {
    REPLY_TIMEOUT_MS = 30000, /* a node that does not answer a question by then never will */
    CONTROL_PATH_MAX = 4096,
    TOKENS_MAX = 4096,
};

/* A stage-2 action waiting for its commit; what it points to in the cluster is copied. */
struct deferred {
    struct list link;
    struct cluster_action action;
    char node[NODE_NAME_MAX];
    struct attempt placed;
};

/* A line of the log that waits for the commit of what it tells. */
struct log_line {
    struct list link;
    const char *message;
    char fields[];
};

/* Steps that will be committed together, and what follows then. */
struct round {
    struct store_batch *batch;
    size_t requests;      /* that will be answered then */
    struct list deferred; /* struct deferred */
    struct list lines;    /* struct log_line */
};

/* Who waits for a REPLY of the cluster, or for a node's answer. */
struct waiter;
typedef void (*waiter_reply)(struct waiter *w, const struct cluster_action *reply);
typedef void (*waiter_answer)(struct waiter *w, const struct nodemsg *answer);
struct waiter {
    struct list link; /* control.waiters */
    struct control *control;
    uint64_t request; /* key in control.requests */
    int64_t since_boot_ms;
    struct http_request *http; /* owned until answered */
    waiter_reply on_reply;     /* of the cluster; may be NULL */
    waiter_answer on_answer;   /* of a node; NULL msg: it will not come */
    struct node_link *asked;   /* whose answer is awaited */
    uint64_t workload;
    void *arg;
};

struct token {
    struct list link; /* control.tokens */
    uint64_t id;
    char hash[TOKEN_HASH_TEXT_MAX];
    bool for_node; /* lets one node join; else it has a role */
    enum http_role role;
    char account[USER_NAME_MAX]; /* or the name that the node must have; "": any */
    char creator[USER_NAME_MAX];
    int64_t created_wall_ms, expires_wall_ms;
    int64_t expired_boot_ms; /* since when it is seen to have; 0: it has not */
    bool told;               /* that it has */
    bool revoked;            /* not durably yet */
};

struct control {
    struct event_base *base;
    const struct log *log;
    const struct config *config;
    char directory[CONTROL_PATH_MAX];
    struct cluster_config cluster_config;
    struct cluster_allowance *allowances; /* of cluster_config; owned */
    struct cluster *cluster;              /* NULL: could not be rebuilt yet; nothing is accepted */
    struct cluster_actions actions;
    struct learning *learning; /* of cluster_config.forecast */
    struct keeper *keeper;
    int64_t forecast_due_boot_ms; /* not before does the cluster hear of a new one */
    int64_t room_due_boot_ms;     /* not before are programs forgotten for others */
    struct store *store;
    struct committer *committer;
    struct round filling;
    struct list committing;       /* struct deferred, of the batch that the store thread has */
    struct list committing_lines; /* struct log_line, of the same */
    size_t committing_requests;
    int64_t committing_since_us;
    size_t gather_target; /* > 0: the next commit waits for that many requests, or for `gather` */
    struct http_server *http;
    struct auth *auth;
    struct authority *authority; /* NULL, as the next two: not on a network */
    struct tls_context *tls;
    struct event *tls_due; /* when control's own certificate is to be renewed */
    uint16_t port;
    struct list tokens;   /* struct token */
    struct list joinings; /* struct joining, of join.c */
    uint64_t token_last;
    struct event *token_due; /* when the next one expires */
    struct evconnlistener *node_listener;
    struct event *listen_again;  /* to nodes, after one could not be accepted */
    struct list links;           /* struct node_link */
    struct list partings;        /* struct parting, of link.c */
    struct list broken_sessions; /* while stalled; of link.c */
    struct hash_map links_by_session;
    struct list watchers; /* struct watcher */
    struct list log_streams;
    struct list waiters;
    struct hash_map requests; /* request number → struct waiter */
    uint64_t request_last;
    struct event *flush, *tick, *retry, *gather;
    int64_t tick_due_boot_ms;
    bool stalled; /* nothing could be stored since then, and for this reason: control.c */
    int64_t stalled_since_boot_ms;
    struct error stall_error;
    const struct submission *submitting; /* during the step of a SUBMIT */
    int64_t started_boot_ms;
    uint64_t steps, commits_failed, rebuilds;
};

/* A submission on its way through its step: what STORE_NEW needs. */
struct submission_item {
    const struct workload_spec *spec;
    const char *name;
    int array_index; /* -1: none */
    const char *spec_json;
    size_t after_count;
    struct cluster_after *after;
};
struct submission {
    uint32_t uid; /* or UID_BY_NAME */
    const char *user;
    bool is_admin;
    const char *key;
    size_t count;
    struct submission_item *items;
};

/* control.c */
/* Steps the cluster and books its actions; the event's `now` is filled in. -ERR_UNAVAILABLE while
 * there is no cluster: then nothing happened and no reply comes. While nothing can be stored the
 * reply says why; -ERR_UNAVAILABLE where nobody waits for it. */
int control_step(struct control *c, struct cluster_event *event);
/* For what is stored beside the cluster: it was added to the filling round, with the result
 * `booked`. w (NULL: nobody) gets its reply after the commit. -ERR_NO_MEMORY: it was not all added;
 * the round is given up as after a failed commit, and w is still the caller's. */
int control_commit(struct control *c, struct waiter *w, int booked);
/* As log_write at LOG_INFO, once the filling round is durable; never if that fails. The message is
 * borrowed until then. -ERR_NO_MEMORY */
int control_log_later(struct control *c, const char *message, const char *fields, ...)
    __attribute__((format(printf, 3, 4)));
/* Registers a waiter for http; its number goes into the event. NULL: out of memory. */
struct waiter *waiter_new(struct control *c, struct http_request *http);
void waiter_free(struct waiter *w);

/* load.c */
int control_load_cluster(struct error *e, struct control *c, struct cluster **ret);
/* What is said of a workload whose record is refused for this reason. */
void control_say_unreadable(const struct error *why, char text[WORKLOAD_TEXT_MAX]);

/* configuration.c */
/* What the configuration means to the cluster. *ret_allowances, which ret borrows, is the caller's
 * to free. */
int configuration_read(struct error *e, const struct config *config, struct cluster_config *ret,
                       struct cluster_allowance **ret_allowances);

/* allowances.c */
/* As the configuration has them. *ret is the caller's to free. */
int allowances_read(struct error *e, const struct pairs *pairs, struct cluster_allowance **ret);
/* The number of this user's, or of one of his groups'; 0: he has none. */
uint32_t allowances_find(const struct control *c, const char *user);

/* teach.c */
struct node_link;
/* What a user's spec says that policies want to know, in the cluster that it is for. */
struct policy_known control_known(struct control *c, const struct cluster *cluster,
                                  const char *user, const struct workload_spec *spec);
/* A node's word on one device, whose attempts the link knows. */
void control_learn(struct control *c, const struct node_link *link, const char *node,
                   const struct device_usage *usage, const struct forecast_device *type);
/* About every second. */
void control_learn_tick(struct control *c, int64_t now_boot_ms);

/* link.c */
int links_listen(struct error *e, struct control *c, const char *path);
/* A connection on which a node will say hello, with the certificate that it has; NULL: it is
 * believed without one. Owns the stream, also on failure. */
int links_take(struct control *c, struct bufferevent *stream,
               const struct certificate_facts *certificate);
/* Closes all: after a rebuilt cluster every node must say hello again. */
void links_close_all(struct control *c);
/* Closes those whose session the cluster no longer has: what runs there may become another's. */
void links_end_strangers(struct control *c);
/* Carries out SEND_*. */
void links_send(struct control *c, const struct deferred *d);
/* An event of a node was refused: its connection ends, and it says hello again. */
void links_refuse(struct control *c, const struct cluster_action *reply);
/* The open connection of a node, or NULL. */
struct node_link *links_find(struct control *c, const char *node);
/* What every attempt used when its node last said. */
void links_visit_usage(const struct control *c,
                       void (*visit)(void *arg, const char *node,
                                     const struct attempt_usage *usage),
                       void *arg);
/* Sends a question for which w awaits the answer; -ERR_UNAVAILABLE if it cannot be sent. */
int link_ask(struct node_link *link, struct waiter *w, struct nodemsg *msg);
const struct device_usage *link_device_usage(const struct node_link *link, const char *uuid);
const struct attempt_usage *link_attempt_usage(const struct node_link *link, uint64_t workload,
                                               int attempt);

/* network.c */
/* -ERR_NOT_FOUND: `control init` has not been run. */
int network_listen(struct error *e, struct control *c, const struct address *at);
/* After the http server is gone. */
void network_done(struct control *c);
/* A certificate for a node of that name, as configured. */
int network_issue(struct error *e, const struct control *c, const char *request, const char *name,
                  struct str *ret_certificate);
/* In how many milliseconds a node should renew the certificate that it has until then. */
int64_t network_renew_ms(const struct control *c, int64_t until_wall_ms);

/* submit.c, workloads.c, logs.c, watch.c, nodes.c: handlers of the routes */
void handle_submit(void *context, struct http_request *r);
void handle_list(void *context, struct http_request *r);
void handle_get(void *context, struct http_request *r);
void handle_explain(void *context, struct http_request *r);
void handle_cancel(void *context, struct http_request *r);
void handle_requeue(void *context, struct http_request *r);
void handle_suspend(void *context, struct http_request *r);
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

void handle_join(void *context, struct http_request *r);
void handle_tokens(void *context, struct http_request *r);
void handle_token_create(void *context, struct http_request *r);
void handle_token_revoke(void *context, struct http_request *r);

/* access.c */
int control_authorize(struct error *e, void *context, const struct http_request *r,
                      enum http_role least, struct http_peer *peer);
bool control_is_admin(const struct control *c, const struct http_request *r);
/* Whether the caller may change what belongs to the owner, or read what it printed. */
bool control_may(const struct control *c, const struct http_request *r,
                 const struct store_owner *owner);
/* As whom the caller submits. The name is valid until the next question about accounts. */
struct store_owner control_caller(const struct control *c, const struct http_request *r);
/* As the cluster counts owners: accounts that are only names share a uid. */
uint64_t control_owner_number(uint32_t uid, const char *user);
const char *control_role_name(enum http_role role);
/* Of the roles that a token can have. */
bool control_role_parse(const char *text, enum http_role *ret);

/* tokens.c */
/* Reads all of them from the store, again after a commit that failed. */
int tokens_load(struct error *e, struct control *c);
void tokens_done(struct control *c);
/* The token of the API that was shown, if it is good now; NULL. Valid until the loop's
 * next turn. */
const struct token *tokens_find(struct control *c, const char *text);
/* Whether a node of that name may join with this token. *ret_named: it was made for this very name.
 * -ERR_UNAUTHENTICATED; -ERR_DENIED: it is for another name. */
int tokens_check_join(struct error *e, struct control *c, const char *text, const char *node,
                      bool *ret_named);
/*
 * Uses it up: from here on it is refused, and w gets its reply when that is durable, together with
 * what was added to the round before, with the result `booked`; only then may the node be let in.
 * As tokens_check_join, then nothing was used up; -ERR_NO_MEMORY as control_commit.
 */
int tokens_take_join(struct error *e, struct control *c, const char *text, const char *node,
                     struct waiter *w, int booked);
/* The workload that {ref} names: an id, or the newest of that name, the caller's own before
 * others'. -ERR_NOT_FOUND; -ERR_CONFLICT where it names an array. */
int control_resolve(struct error *e, struct control *c, const struct http_request *r,
                    uint64_t *ret_id);
int control_resolve_ref(struct error *e, struct control *c, const struct http_request *r,
                        const char *ref, uint64_t *ret_id);
/* A query parameter (or any text) that must be a number; untouched if it is not there. */
int control_query_number(struct error *e, const struct http_request *r, const char *name,
                         uint64_t least, uint64_t most, uint64_t *ret);
int control_number(struct error *e, const char *field, const char *text, uint64_t least,
                   uint64_t most, uint64_t *ret);

/* Where an attempt is (wanted 0: the newest; attempt is 0 when there is none). */
struct located {
    uint32_t uid;
    char user[USER_NAME_MAX];
    int attempt;
    bool open;     /* the attempt has not ended */
    bool lost;     /* it was given up with its node */
    bool terminal; /* the workload has */
    char node[NODE_NAME_MAX];
    char text[WORKLOAD_TEXT_MAX]; /* of the workload's status */
};
int control_locate(struct error *e, struct control *c, uint64_t workload, int wanted,
                   struct located *ret);

/* show.c: how things look as JSON */
struct show_options {
    bool detail;  /* spec, attempts and dependencies too */
    bool secrets; /* with the values of its environment */
};
/* The spec that was parsed last, for rows without a summary: the elements of an array share a spec.
 * Zeroed before the first row. */
struct shown_spec {
    struct arena arena;
    uint64_t id; /* 0: none, or it cannot be read */
    struct workload_spec spec;
    struct str summary;
    size_t bytes; /* of all that were parsed */
};
void shown_spec_done(struct shown_spec *shown);
int show_workload(struct error *e, struct control *c, struct str *out,
                  const struct store_workload *row, const struct show_options *options,
                  struct shown_spec *shown);
void show_event(struct str *out, const struct store_event *event);
void show_node(struct control *c, struct str *out, const char *name, bool drained,
               const struct node_info *info);

/* watch.c: after a commit that may have written events */
void watchers_wake(struct control *c);
void watchers_close_all(struct control *c);
/* logs.c */
void log_streams_close_all(struct control *c);
