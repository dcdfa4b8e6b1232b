/*
 * The loop thread's centre: events go into the cluster's step, and its actions come out in two
 * stages.
 *
 * Stage 1 of every step is added to the filling round. When the store thread is idle, control
 * passes the round to it. Once the round is durable, control carries out the round's stage 2. After
 * a failed commit, every request that waits for this or a later round gets an error, and the
 * cluster is rebuilt from the store, so that memory agrees with the disk.
 *
 * Between a failed commit and the next successful one control decides nothing (`stalled`): requests
 * for changes get the store's error, and time does not pass for the cluster. So durable facts stay
 * true, and nodes keep the leases of their tasks: link.c answers their beats without the cluster.
 * Every second control writes something to test the store. After a success control closes the links
 * and rebuilds the cluster, which then has heard of each node as late as the node's link.
 *
 * Clients that got their responses together usually ask again together. If the next commit started
 * with the first of their requests, the others would wait for a whole sync. So after a commit with
 * several requests the next commit waits for as many requests, but at most for a part of a sync
 * (gather_begin()).
 */
#include <event2/event.h>
#include <event2/listener.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control_internal.h"
#include "wire/record.h"
#include "wire/spec.h"

enum {
    STORE_RETRY_MS = 1000,
    HOUSEKEEPING_MS = 1000,
    GATHER_MAX_US = 1000,      /* longest wait of a commit for more requests */
    GATHER_WORTH_US = 500,     /* shortest sync for which waiting pays */
    GATHER_PART_OF_COMMIT = 4, /* divisor of the last commit's duration: longest wait */
};

static const struct http_route routes[] = {
    {HTTP_POST, "/v1/workloads", handle_submit, HTTP_USER},
    {HTTP_GET, "/v1/workloads", handle_list, HTTP_VIEWER},
    {HTTP_GET, "/v1/workloads/{ref}", handle_get, HTTP_VIEWER},
    {HTTP_GET, "/v1/workloads/{ref}/explain", handle_explain, HTTP_VIEWER},
    {HTTP_POST, "/v1/workloads/{ref}/cancel", handle_cancel, HTTP_USER},
    {HTTP_POST, "/v1/workloads/{ref}/requeue", handle_requeue, HTTP_USER},
    {HTTP_POST, "/v1/workloads/{ref}/suspend", handle_suspend, HTTP_USER},
    {HTTP_POST, "/v1/workloads/{ref}/resume", handle_resume, HTTP_USER},
    {HTTP_POST, "/v1/workloads/{ref}/advise", handle_advise, HTTP_USER},
    {HTTP_POST, "/v1/workloads/{ref}/signal", handle_signal, HTTP_USER},
    {HTTP_POST, "/v1/workloads/{ref}/input", handle_input, HTTP_USER},
    {HTTP_GET, "/v1/workloads/{ref}/logs", handle_logs, HTTP_VIEWER},
    {HTTP_GET, "/v1/events", handle_events, HTTP_VIEWER},
    {HTTP_GET, "/v1/nodes", handle_nodes, HTTP_VIEWER},
    {HTTP_GET, "/v1/nodes/{name}", handle_node, HTTP_VIEWER},
    {HTTP_POST, "/v1/nodes/{name}/drain", handle_drain, HTTP_ADMIN},
    {HTTP_POST, "/v1/nodes/{name}/undrain", handle_undrain, HTTP_ADMIN},
    {HTTP_POST, "/v1/devices/{uuid}/enable", handle_enable, HTTP_ADMIN},
    {HTTP_POST, "/v1/devices/{uuid}/disable", handle_disable, HTTP_ADMIN},
    {HTTP_POST, "/v1/join", handle_join, HTTP_ANYBODY},
    {HTTP_GET, "/v1/tokens", handle_tokens, HTTP_ADMIN},
    {HTTP_POST, "/v1/tokens", handle_token_create, HTTP_ADMIN},
    {HTTP_DELETE, "/v1/tokens/{id}", handle_token_revoke, HTTP_ADMIN},
    {HTTP_GET, "/v1/version", handle_version, HTTP_VIEWER},
    {HTTP_GET, "/healthz", handle_healthz, HTTP_ANYBODY},
    {HTTP_GET, "/readyz", handle_readyz, HTTP_ANYBODY},
    {HTTP_GET, "/metrics", handle_metrics, HTTP_VIEWER},
    {HTTP_METHOD_END, NULL, NULL, HTTP_ANYBODY},
};

/* ---- waiters ---- */

struct waiter *waiter_new(struct control *c, struct http_request *http)
{
    struct waiter *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    *w = (struct waiter){
        .control = c, .http = http, .request = ++c->request_last, .since_boot_ms = clock_boot_ms()};
    if (hash_map_put(&c->requests, w->request, w) < 0) {
        free(w);
        return NULL;
    }
    list_append(&c->waiters, &w->link);
    return w;
}

void waiter_free(struct waiter *w)
{
    if (!w)
        return;
    hash_map_remove(&w->control->requests, w->request);
    list_remove(&w->link);
    free(w);
}

void answer_json(struct http_request *r, int result, const struct error *e, int status,
                 struct str *json)
{
    if (result < 0)
        http_answer_error(r, e);
    else
        http_answer_json(r, status, str_text(json), json->length);
    str_done(json);
}

void answer_refused(struct http_request *r, const struct cluster_action *a)
{
    struct error e;
    error_set_field(&e, (enum error_code) - a->result, a->field, "%s", a->text);
    http_answer_error(r, &e);
}

static void on_node_answer(struct waiter *w, const struct nodemsg *msg)
{
    struct http_request *r = w->http;
    waiter_free(w);
    struct error e;
    if (msg && msg->result == 0) {
        http_answer_text(r, 204, NULL, "", 0);
        return;
    }
    if (msg)
        error_set(&e, (enum error_code) - msg->result, "%s", msg->text ? msg->text : "refused");
    else
        error_set(&e, ERR_UNAVAILABLE, "its node did not answer; try again");
    http_answer_error(r, &e);
}

int waiter_pass_on(struct error *e, struct control *c, struct http_request *http, const char *node,
                   struct nodemsg *msg)
{
    struct node_link *link = links_find(c, node);
    if (!link)
        return error_set(e, ERR_UNAVAILABLE, "node '%s' is not connected; try again", node);
    struct waiter *w = waiter_new(c, http);
    if (!w)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    w->on_answer = on_node_answer;
    if (link_ask(link, w, msg) < 0)
        on_node_answer(w, NULL);
    return 0;
}

/* Ends waiters for nodes that do not answer. Waiters for the cluster need no timeout, because every
 * commit ends. */
static void waiters_expire(struct control *c, int64_t now_boot_ms)
{
    list_for_each_safe (it, &c->waiters) {
        struct waiter *w = list_entry(it, struct waiter, link);
        if (w->on_answer && now_boot_ms - w->since_boot_ms > REPLY_TIMEOUT_MS)
            w->on_answer(w, NULL);
    }
}

/* ---- rounds ---- */

static void deferred_free_all(struct list *deferred)
{
    list_for_each_safe (it, deferred) {
        list_remove(it);
        free(list_entry(it, struct deferred, link));
    }
}

static void reply(struct control *c, const struct cluster_action *action)
{
    struct waiter *w = hash_map_get(&c->requests, action->request);
    if (w && w->on_reply)
        w->on_reply(w, action);
    else if (!w && action->result < 0)
        links_refuse(c, action);
}

/* Carries out stage 2. A failed round answers every request with the error, and sends nothing. */
static void round_act(struct control *c, struct list *deferred, int result,
                      const struct error *error)
{
    struct list now; /* Actions may add to a later round. */
    list_init(&now);
    list_move_all(deferred, &now);
    while (!list_empty(&now)) {
        struct deferred *d = list_entry(now.next, struct deferred, link);
        list_remove(&d->link);
        if (d->action.kind == CLUSTER_REPLY) {
            if (result < 0) {
                d->action.result = result;
                str_copy(d->action.text, sizeof d->action.text, error->text);
            }
            reply(c, &d->action);
        } else if (result == 0) {
            links_send(c, d);
        }
        free(d);
    }
}

static void lines_drop(struct list *lines)
{
    list_for_each_safe (it, lines) {
        list_remove(it);
        free(list_entry(it, struct log_line, link));
    }
}

static void lines_write(struct control *c, struct list *lines)
{
    list_for_each (it, lines) {
        const struct log_line *line = list_entry(it, struct log_line, link);
        log_write(c->log, LOG_INFO, line->message, "%s", line->fields);
    }
    lines_drop(lines);
}

int control_log_later(struct control *c, const char *message, const char *fields, ...)
{
    if (!c->log || c->log->level < LOG_INFO)
        return 0;
    va_list args, again;
    va_start(args, fields);
    va_copy(again, args);
    size_t bytes = (size_t)vsnprintf(NULL, 0, fields, args) + 1;
    struct log_line *line = malloc(sizeof *line + bytes);
    if (line) {
        line->message = message;
        (void)vsnprintf(line->fields, bytes, fields, again);
        list_append(&c->filling.lines, &line->link);
    }
    va_end(again);
    va_end(args);
    return line ? 0 : -ERR_NO_MEMORY;
}

/* Arms the timer, never later than before, so that frequent steps do not postpone a tick for
 * ever. */
static void tick_arm(struct control *c)
{
    int64_t now = clock_boot_ms(), due = now + HOUSEKEEPING_MS;
    if (c->cluster && !c->stalled && cluster_next_tick(c->cluster) < due)
        due = cluster_next_tick(c->cluster);
    if (evtimer_pending(c->tick, NULL) && c->tick_due_boot_ms <= due)
        return;
    int64_t wait_ms = due > now ? due - now : 0;
    struct timeval tv = {.tv_sec = wait_ms / 1000, .tv_usec = (wait_ms % 1000) * 1000};
    evtimer_add(c->tick, &tv);
    c->tick_due_boot_ms = due;
}

static void round_flush(struct control *c)
{
    if (committer_busy(c->committer))
        return; /* the end of that commit flushes again */
    if (c->filling.requests < c->gather_target)
        return; /* the remaining requests, or the timer, flush again */
    if (store_batch_count(c->filling.batch) == 0) {
        c->filling.requests = 0;
        round_act(c, &c->filling.deferred, 0, NULL);
        return;
    }
    struct store_batch *next = store_batch_new();
    if (!next)
        return; /* the next flush tries again; nothing is lost */
    struct store_batch *batch = c->filling.batch;
    c->filling.batch = next;
    list_move_all(&c->filling.deferred, &c->committing);
    list_move_all(&c->filling.lines, &c->committing_lines);
    c->committing_requests = c->filling.requests;
    c->committing_since_us = clock_boot_us();
    c->filling.requests = 0;
    c->gather_target = 0;
    committer_start(c->committer, batch);
}

static void retry_arm(struct control *c)
{
    static const struct timeval wait = {.tv_sec = STORE_RETRY_MS / 1000};
    if (!evtimer_pending(c->retry, NULL))
        evtimer_add(c->retry, &wait);
}

static void cluster_drop(struct control *c)
{
    cluster_free(c->cluster);
    c->cluster = NULL;
}

/* Rebuilds the cluster, but not during a commit, whose changes could be missing from the data
 * read. */
static void rebuild(struct control *c)
{
    struct error e = {0};
    int r = tokens_load(&e, c);
    if (r == 0 && !c->cluster) {
        r = control_load_cluster(&e, c, &c->cluster);
        c->rebuilds += r == 0;
    }
    if (r < 0) {
        cluster_drop(c);
        log_write(c->log, LOG_ERROR, "state reload failed", "error=\"%s\"", e.text);
        retry_arm(c);
        return;
    }
    tick_arm(c);
}

/*
 * Drops decisions that the store thread did not get, and returns to the stored state. A commit in
 * flight continues, and control accepts nothing until its end.
 */
static void round_drop(struct control *c, const struct error *error)
{
    c->filling.requests = 0;
    c->gather_target = 0;
    lines_drop(&c->filling.lines);
    round_act(c, &c->filling.deferred, -error->code, error);
    store_batch_clear(c->filling.batch);
    if (!c->stalled) { /* while stalled nothing was decided */
        cluster_drop(c);
        links_close_all(c);
    }
    if (!committer_busy(c->committer)) /* else on_committed() rebuilds */
        rebuild(c);
}

static void round_give_up(struct control *c, const struct error *error)
{
    log_write(c->log, LOG_ERROR, "pending decisions discarded", "error=\"%s\" requests=%zu",
              error->text, c->filling.requests);
    round_drop(c, error);
}

/* ---- while stalled ---- */

static void stall_begin(struct control *c, const struct error *error)
{
    c->stall_error = *error;
    if (c->stalled)
        return;
    links_end_strangers(c);
    c->stalled = true;
    c->stalled_since_boot_ms = clock_boot_ms();
    cluster_drop(c);
}

/* Resumes decisions. Every node must say hello, because its messages meanwhile were ignored. */
static void stall_end(struct control *c)
{
    c->stalled = false;
    round_drop(c, &c->stall_error);
}

/* Writes an event that is harmless at any time. */
static void stall_probe(struct control *c)
{
    char text[WORKLOAD_TEXT_MAX];
    long long seconds = (clock_boot_ms() - c->stalled_since_boot_ms) / 1000;
    snprintf(text, sizeof text, "nothing could be stored for %lld s: %.130s", seconds,
             c->stall_error.text);
    const struct store_event event = {
        .wall_ms = clock_wall_ms(), .node = "", .what = "stored_again", .text = text};
    if (store_batch_event(c->filling.batch, &event) < 0 ||
        control_log_later(c, event.what, "detail=\"%s\"", text) < 0)
        retry_arm(c);
    else
        event_active(c->flush, EV_TIMEOUT, 0);
}

static void gather_begin(struct control *c)
{
    int64_t took_us = clock_boot_us() - c->committing_since_us;
    if (c->committing_requests < 2 || took_us < GATHER_WORTH_US)
        return;
    int64_t wait_us = took_us / GATHER_PART_OF_COMMIT;
    struct timeval tv = {.tv_usec = wait_us < GATHER_MAX_US ? wait_us : GATHER_MAX_US};
    if (evtimer_add(c->gather, &tv) == 0)
        c->gather_target = c->committing_requests;
}

static void on_commit_failed(struct control *c, int result, const struct error *error)
{
    bool was_stalled = c->stalled;
    c->commits_failed++;
    if (!was_stalled || c->committing_requests > 0) /* once, not for each probe */
        log_write(c->log, LOG_ERROR, "commit failed", "error=\"%s\" requests=%zu", error->text,
                  c->committing_requests + c->filling.requests);
    lines_drop(&c->committing_lines);
    stall_begin(c, error);
    /* Later decisions depend on the failed batch, and fail with it. */
    round_act(c, &c->committing, result, error);
    round_drop(c, error);
    if (was_stalled)
        retry_arm(c);
    else
        stall_probe(c); /* possibly only that commit failed */
}

static void on_committed(void *arg, int result, const struct error *error)
{
    struct control *c = arg;
    if (result < 0) {
        on_commit_failed(c, result, error);
        return;
    }
    lines_write(c, &c->committing_lines);
    round_act(c, &c->committing, 0, NULL);
    watchers_wake(c);
    if (c->stalled) {
        stall_end(c);
        return;
    }
    gather_begin(c);
    if (!c->cluster)
        rebuild(c);
    if (store_batch_count(c->filling.batch) > 0 || !list_empty(&c->filling.deferred))
        round_flush(c);
}

/* ---- stage 1 ---- */

static int write_after(const struct submission_item *item, uint64_t first, struct str *out)
{
    struct after_id *ids = calloc(item->after_count + 1, sizeof *ids);
    for (size_t i = 0; ids && i < item->after_count; i++) {
        const struct cluster_after *a = &item->after[i];
        ids[i].workload = a->within ? first + a->workload : a->workload;
        ids[i].succeeded = a->succeeded;
    }
    int r = ids ? record_write_after(ids, item->after_count, out) : -ERR_NO_MEMORY;
    free(ids);
    return r;
}

static int store_spec(struct control *c, uint64_t id, const struct submission_item *item)
{
    struct str summary;
    str_init(&summary, SPEC_TEXT_MAX);
    bool fits = spec_write_summary(item->spec, &summary) == 0;
    int r =
        store_batch_spec(c->filling.batch, id, item->spec_json, fits ? str_text(&summary) : NULL);
    str_done(&summary);
    return r;
}

static int store_new_workload(struct control *c, const struct cluster_action *a,
                              const char *status_json)
{
    const struct submission *s = c->submitting;
    const struct submission_item *item = &s->items[a->item];
    uint64_t first = a->workload - a->item;
    uint64_t group =
        item->array_index > 0 ? a->workload - (uint64_t)item->array_index : a->workload;
    struct str after;
    str_init(&after, SPEC_TEXT_MAX);
    int r = write_after(item, first, &after);
    struct store_workload row = {
        .id = a->workload,
        .group = group,
        .first = first,
        .submitted = s->count,
        .spec_id = group,
        .uid = s->uid,
        .user = s->user,
        .name = item->name,
        .base = item->spec->name,
        .key = s->key,
        .array_index = item->array_index,
        .kind = item->spec->needs.kind,
        .priority = item->spec->needs.priority,
        .state = a->status->state,
        .submitted_wall_ms = a->status->submitted_wall_ms,
        .ended_wall_ms = a->status->ended_wall_ms,
        .after = str_text(&after),
        .status = status_json,
    };
    if (r == 0 && item->array_index <= 0)
        r = store_spec(c, group, item);
    if (r == 0)
        r = store_batch_workload(c->filling.batch, &row);
    str_done(&after);
    return r;
}

static int store_event_of(struct control *c, const struct cluster_action *a, int64_t wall_ms)
{
    struct store_event event = {.wall_ms = wall_ms,
                                .workload = a->workload,
                                .attempt = a->attempt,
                                .node = a->node ? a->node : "",
                                .what = a->what,
                                .text = a->text};
    int r = store_batch_event(c->filling.batch, &event);
    if (r < 0)
        return r;
    return control_log_later(c, a->what, "workload=%llu attempt=%d node=%s detail=\"%s\"",
                             (unsigned long long)a->workload, a->attempt, event.node, a->text);
}

static int book_store(struct control *c, const struct cluster_action *a, int64_t wall_ms)
{
    if (a->kind == CLUSTER_STORE_DELETE)
        return store_batch_delete(c->filling.batch, a->workload);
    if (a->kind == CLUSTER_EVENT_LOG)
        return store_event_of(c, a, wall_ms);
    struct str json;
    str_init(&json, SPEC_TEXT_MAX);
    int r;
    if (a->kind == CLUSTER_STORE_NODE) {
        r = record_write_node(a->info, &json);
        if (r == 0)
            r = store_batch_node(c->filling.batch, a->node, a->drained, str_text(&json));
    } else {
        r = record_write_status(a->status, &json);
        if (r == 0 && a->kind == CLUSTER_STORE_NEW)
            r = store_new_workload(c, a, str_text(&json));
        else if (r == 0)
            r = store_batch_status(c->filling.batch, a->workload, a->status->state,
                                   a->status->ended_wall_ms, str_text(&json));
    }
    str_done(&json);
    return r;
}

static int book_deferred(struct control *c, const struct cluster_action *a)
{
    struct deferred *d = malloc(sizeof *d);
    if (!d)
        return -ERR_NO_MEMORY;
    d->action = *a;
    d->action.status = NULL;
    d->action.info = NULL;
    d->node[0] = '\0';
    if (a->node)
        str_copy(d->node, sizeof d->node, a->node);
    d->action.node = d->node;
    if (a->placed)
        d->placed = *a->placed;
    d->action.placed = a->placed ? &d->placed : NULL;
    list_append(&c->filling.deferred, &d->link);
    c->filling.requests += a->kind == CLUSTER_REPLY && hash_map_get(&c->requests, a->request);
    return 0;
}

/* Books the store's error as reply, if a waiter exists. */
static int stall_refuse(struct control *c, uint64_t request)
{
    struct cluster_action reply = {
        .kind = CLUSTER_REPLY, .request = request, .result = -c->stall_error.code};
    str_copy(reply.text, sizeof reply.text, c->stall_error.text);
    if (!hash_map_get(&c->requests, request) || book_deferred(c, &reply) < 0)
        return -ERR_UNAVAILABLE;
    event_active(c->flush, EV_TIMEOUT, 0);
    return 0;
}

int control_commit(struct control *c, struct waiter *w, int booked)
{
    const struct cluster_action reply = {.kind = CLUSTER_REPLY, .request = w ? w->request : 0};
    if (booked < 0 || (w && book_deferred(c, &reply) < 0)) {
        struct error e;
        error_set(&e, ERR_NO_MEMORY, "out of memory");
        round_give_up(c, &e);
        return -ERR_NO_MEMORY;
    }
    event_active(c->flush, EV_TIMEOUT, 0);
    return 0;
}

int control_step(struct control *c, struct cluster_event *event)
{
    if (!c->cluster)
        return -ERR_UNAVAILABLE;
    if (c->stalled)
        return stall_refuse(c, event->request);
    event->now = clock_read();
    c->actions.count = 0;
    c->steps++;
    int r = cluster_step(c->cluster, event, &c->actions);
    for (size_t i = 0; r == 0 && i < c->actions.count; i++) {
        const struct cluster_action *a = &c->actions.items[i];
        r = a->kind < CLUSTER_REPLY ? book_store(c, a, event->now.wall_ms) : book_deferred(c, a);
    }
    if (r < 0) {
        /* A partly booked step must not be committed: the round is dropped as after a failed
         * commit. */
        struct error e;
        error_set(&e, ERR_NO_MEMORY, "out of memory");
        round_give_up(c, &e);
        return -ERR_UNAVAILABLE;
    }
    if (store_batch_count(c->filling.batch) > 0 || !list_empty(&c->filling.deferred))
        event_active(c->flush, EV_TIMEOUT, 0);
    tick_arm(c);
    return 0;
}

/* ---- timers ---- */

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    round_flush(arg);
}

static void on_gathered(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct control *c = arg;
    c->gather_target = 0;
    round_flush(c);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct control *c = arg;
    waiters_expire(c, clock_boot_ms());
    struct cluster_event event = {.kind = CLUSTER_TICK};
    if (control_step(c, &event) < 0)
        tick_arm(c);
    control_learn_tick(c, clock_boot_ms());
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct control *c = arg;
    if (c->stalled)
        stall_probe(c);
    else if (!c->cluster)
        rebuild(c);
}

/* ---- life ---- */

static int control_open(struct error *e, struct control *c, const struct control_options *o)
{
    int r = store_open_sqlite(e, o->directory, &c->store);
    if (r == 0)
        r = tokens_load(e, c);
    if (r == 0)
        r = keeper_new(e, c->base, c->log, o->directory, c->learning, &c->keeper);
    if (r == 0)
        r = control_load_cluster(e, c, &c->cluster);
    if (r == 0)
        r = committer_new(e, c->base, c->store, (uint64_t)c->config->keep_events, on_committed, c,
                          &c->committer);
    if (r == 0)
        r = links_listen(e, c, o->node_socket);
    if (r == 0)
        r = auth_new(e, geteuid(), c->config->admin_group, &c->auth);
    if (r == 0)
        r = http_server_new(e, c->base, c->log, routes, c, (size_t)c->config->connections_max,
                            &c->http);
    if (r == 0) {
        http_server_set_authorize(c->http, control_authorize);
        r = http_server_listen_unix(e, c->http, o->api_socket, 0666);
    }
    if (r == 0 && o->listen)
        r = network_listen(e, c, o->listen);
    return r;
}

int control_new(struct error *e, struct event_base *base, const struct control_options *options,
                struct control **ret)
{
    struct control *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    c->base = base;
    c->log = options->log;
    c->config = options->config;
    c->started_boot_ms = clock_boot_ms();
    str_copy(c->directory, sizeof c->directory, options->directory);
    list_init(&c->links);
    list_init(&c->partings);
    list_init(&c->broken_sessions);
    hash_map_init(&c->links_by_session);
    list_init(&c->watchers);
    list_init(&c->log_streams);
    list_init(&c->waiters);
    list_init(&c->tokens);
    list_init(&c->joinings);
    list_init(&c->filling.deferred);
    list_init(&c->filling.lines);
    list_init(&c->committing);
    list_init(&c->committing_lines);
    hash_map_init(&c->requests);
    cluster_actions_init(&c->actions);
    c->learning = learning_new();
    c->flush = event_new(base, -1, 0, on_flush, c);
    c->tick = evtimer_new(base, on_tick, c);
    c->retry = evtimer_new(base, on_retry, c);
    c->gather = evtimer_new(base, on_gathered, c);
    c->filling.batch = store_batch_new();
    int r = 0;
    if (!c->filling.batch || !c->learning || !c->flush || !c->tick || !c->retry || !c->gather)
        r = error_set(e, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = configuration_read(e, c->config, &c->cluster_config, &c->allowances);
    if (r == 0) {
        c->cluster_config.forecast = learning_forecast(c->learning);
        r = control_open(e, c, options);
    }
    if (r < 0) {
        control_free(c);
        return r;
    }
    tick_arm(c);
    *ret = c;
    return 0;
}

uint16_t control_port(const struct control *c)
{
    return c->port;
}

/* Answers requests that wait at the end: their commit may or may not have happened. */
static void waiters_close_all(struct control *c)
{
    while (!list_empty(&c->waiters)) {
        struct waiter *w = list_entry(c->waiters.next, struct waiter, link);
        struct cluster_action bye = {.kind = CLUSTER_REPLY, .result = -ERR_UNAVAILABLE};
        str_copy(bye.text, sizeof bye.text, "gpumux is stopping; ask again when it is back");
        if (w->on_reply)
            w->on_reply(w, &bye);
        else
            w->on_answer(w, NULL);
    }
}

void control_free(struct control *c)
{
    if (!c)
        return;
    committer_free(c->committer);
    log_streams_close_all(c);
    watchers_close_all(c);
    waiters_close_all(c);
    http_server_free(c->http);
    network_done(c);
    auth_free(c->auth);
    tokens_done(c);
    free(c->allowances);
    links_close_all(c);
    if (c->node_listener)
        evconnlistener_free(c->node_listener);
    if (c->listen_again)
        event_free(c->listen_again);
    deferred_free_all(&c->filling.deferred);
    deferred_free_all(&c->committing);
    lines_drop(&c->filling.lines);
    lines_drop(&c->committing_lines);
    store_batch_free(c->filling.batch);
    cluster_free(c->cluster);
    cluster_actions_done(&c->actions);
    keeper_free(c->keeper);
    learning_free(c->learning);
    store_close(c->store);
    hash_map_done(&c->links_by_session);
    hash_map_done(&c->requests);
    struct event *events[] = {c->flush, c->tick, c->retry, c->gather};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            event_free(events[i]);
    free(c);
}
