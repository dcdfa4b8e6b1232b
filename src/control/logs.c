/*
 * GET /v1/workloads/{ref}/logs: the output is on the node that ran the attempt. Control requests
 * the output piece by piece and passes each piece on; control requests the next piece when the
 * client has taken the earlier ones.
 *
 * Following continues through every recoverable interruption: a workload without an attempt, an
 * agent that restarts. Following ends with the attempt.
 *
 * Partial output never looks complete: if the rest is not available, the response is an error, or
 * is aborted if it has begun. A repeated request for the rest then gets the reason.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/control_internal.h"
#include "wire/record.h"
#include "wire/spec.h"

enum {
    RETRY_MS = 50,         /* pause while there is no attempt or no node */
    NODE_BACK_MS = 10000,  /* wait for a node to return with the last output of an attempt */
    FOLLOW_WAIT_MS = 5000, /* longest wait of a node before it reports no new output */
    /* bytes that the client may be behind before the next piece waits */
    CLIENT_BEHIND_MAX = 512 << 10,
};

struct log_stream {
    struct list link; /* in control.log_streams */
    struct control *control;
    struct http_request *request; /* NULL once the response has begun */
    struct http_stream *stream;   /* NULL until the response has begun */
    struct waiter *asked;         /* request to the node in flight */
    struct event *timer;
    uint64_t workload, offset;
    /* time since which the node with the last output is away; 0: not away */
    int64_t missed_boot_ms;
    int attempt; /* 0: the first attempt */
    bool follow;
};

static void log_stream_free(struct log_stream *s)
{
    if (s->asked)
        waiter_free(s->asked);
    list_remove(&s->link);
    event_free(s->timer);
    free(s);
}

static void on_closed(void *arg)
{
    log_stream_free(arg);
}

/* Begins the response. Returns false if the client is gone; the stream is then freed. */
static bool log_stream_begin(struct log_stream *s)
{
    if (s->stream)
        return true;
    s->stream = http_stream_begin(s->request, "text/plain; charset=utf-8", on_closed, s);
    s->request = NULL;
    if (!s->stream) {
        log_stream_free(s);
        return false;
    }
    return true;
}

static void log_stream_end(struct log_stream *s)
{
    if (!log_stream_begin(s))
        return;
    http_stream_end(s->stream);
    log_stream_free(s);
}

static void log_stream_fail(struct log_stream *s, const struct error *e)
{
    if (s->stream) {
        http_stream_break(s->stream);
        return;
    }
    http_answer_error(s->request, e);
    log_stream_free(s);
}

static void later(struct log_stream *s)
{
    struct timeval tv = {.tv_usec = RETRY_MS * 1000};
    evtimer_add(s->timer, &tv);
}

static void pump(struct log_stream *s);

static int node_is_away(struct error *e, const char *node)
{
    return error_set(e, ERR_UNAVAILABLE, "node '%s', which has the output, is not connected", node);
}

/* Handles a failed request: msg is the node's answer, or NULL if the node went away. */
static void without_piece(struct log_stream *s, const struct nodemsg *msg)
{
    struct error e = {0};
    if (s->follow) {
        later(s); /* the node may return, or has no grant yet */
    } else if (msg && msg->result == -ERR_GONE) {
        log_stream_end(s); /* nothing was printed yet, or the output was deleted */
    } else {
        error_set(&e, msg ? (enum error_code)(-msg->result) : ERR_UNAVAILABLE, "%s",
                  !msg        ? "the node that has the output went away: ask again"
                  : msg->text ? msg->text
                              : "the output cannot be read");
        log_stream_fail(s, &e);
    }
}

static void on_piece(struct waiter *w, const struct nodemsg *msg)
{
    struct log_stream *s = w->arg;
    s->asked = NULL;
    waiter_free(w);
    if (!msg || msg->result < 0) {
        without_piece(s, msg);
        return;
    }
    s->offset = msg->offset + msg->length;
    if (!log_stream_begin(s))
        return;
    if (msg->length && !http_stream_write(s->stream, msg->data, msg->length))
        return; /* closed and freed */
    if (msg->end || (!s->follow && msg->length == 0))
        log_stream_end(s);
    else
        pump(s);
}

/* Handles a missing node: the node is away, or the workload has not run. */
static void without_node(struct log_stream *s, const struct located *at)
{
    struct error e = {0};
    int64_t now_ms = clock_boot_ms();
    if (!s->missed_boot_ms)
        s->missed_boot_ms = now_ms;
    bool ended = at->attempt && !at->open;
    if (s->follow && ended && at->lost) {
        log_stream_end(s); /* given up with its node: no more output will come */
    } else if (s->follow && (!ended || now_ms - s->missed_boot_ms < NODE_BACK_MS)) {
        later(s);
    } else {
        node_is_away(&e, at->node);
        log_stream_fail(s, &e);
    }
}

/* Requests the next piece, or waits until a request is possible. */
static void pump(struct log_stream *s)
{
    struct control *c = s->control;
    struct located at;
    if (s->stream && http_stream_pending(s->stream) > CLIENT_BEHIND_MAX) {
        later(s);
        return;
    }
    struct error e = {0};
    int r = control_locate(&e, c, s->workload, s->attempt, &at);
    if (r < 0) {
        log_stream_fail(s, &e);
        return;
    }
    if (!at.attempt && at.terminal) {
        log_stream_end(s); /* ended without ever having run */
        return;
    }
    s->attempt = at.attempt;
    struct node_link *link = at.attempt ? links_find(c, at.node) : NULL;
    struct waiter *w = link ? waiter_new(c, NULL) : NULL;
    if (!w) {
        without_node(s, &at);
        return;
    }
    s->missed_boot_ms = 0;
    w->on_answer = on_piece;
    w->arg = s;
    s->asked = w;
    struct nodemsg msg = {.type = NODEMSG_READ,
                          .workload = s->workload,
                          .attempt = s->attempt,
                          .offset = s->offset,
                          .max = NODEMSG_DATA_MAX,
                          .wait_ms = s->follow ? FOLLOW_WAIT_MS : 0};
    if (link_ask(link, w, &msg) < 0)
        on_piece(w, NULL);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    pump(arg);
}

static int read_query(struct error *e, struct http_request *r, struct log_stream *s)
{
    static const char *const queries[] = {"attempt", "offset", "follow", NULL};
    uint64_t attempt = 0, offset = 0, follow = 0;
    int result = http_request_check_query(e, r, queries);
    if (result == 0)
        result = control_query_number(e, r, "attempt", 1, INT32_MAX, &attempt);
    if (result == 0)
        result = control_query_number(e, r, "offset", 0, UINT64_MAX, &offset);
    if (result == 0)
        result = control_query_number(e, r, "follow", 0, 1, &follow);
    s->attempt = (int)attempt;
    s->offset = offset;
    s->follow = follow;
    return result;
}

static int check(struct error *e, struct control *c, struct http_request *r, struct log_stream *s)
{
    struct located at;
    int result = read_query(e, r, s);
    if (result == 0)
        result = control_resolve(e, c, r, &s->workload);
    if (result == 0)
        result = control_locate(e, c, s->workload, s->attempt, &at);
    if (result < 0)
        return result;
    const struct store_owner owner = {.uid = at.uid, .user = at.user};
    if (!control_may(c, r, &owner))
        return error_set(e, ERR_DENIED, "the output of a workload is shown to its owner only");
    if (s->attempt && !at.attempt)
        return error_set_field(e, ERR_NOT_FOUND, "attempt", "there is no attempt %d (kept)",
                               s->attempt);
    if (!at.attempt && at.terminal)
        return error_set(e, ERR_CONFLICT, "it never ran: %s", at.text);
    if (!at.attempt && !s->follow)
        return error_set(e, ERR_CONFLICT, "it has not run yet: %s", at.text);
    bool waits = s->follow && (at.open || at.lost); /* for a node that is away or lost */
    return at.attempt && !waits && !links_find(c, at.node) ? node_is_away(e, at.node) : 0;
}

void handle_logs(void *context, struct http_request *r)
{
    struct control *c = context;
    struct error e = {0};
    struct log_stream *s = calloc(1, sizeof *s);
    if (s)
        s->timer = evtimer_new(c->base, on_timer, s);
    int result = s && s->timer ? check(&e, c, r, s) : error_set(&e, ERR_NO_MEMORY, "out of memory");
    if (result < 0) {
        http_answer_error(r, &e);
        if (s && s->timer)
            event_free(s->timer);
        free(s);
        return;
    }
    s->control = c;
    s->request = r;
    list_append(&c->log_streams, &s->link);
    /* A following client gets its response at once; others once the output is known to be
     * available. */
    if (!s->follow || log_stream_begin(s))
        pump(s);
}

void log_streams_close_all(struct control *c)
{
    struct error e = {0};
    error_set(&e, ERR_UNAVAILABLE, "gpumux is being stopped");
    while (!list_empty(&c->log_streams))
        log_stream_fail(list_entry(c->log_streams.next, struct log_stream, link), &e);
}
