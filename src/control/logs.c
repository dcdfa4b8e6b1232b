/*
 * GET /v1/workloads/{ref}/logs: the output lives on the node that ran the attempt. Control asks for it
 * piece by piece and passes it on; a piece is asked for when the client has taken the last ones.
 *
 * Following goes on through everything that can be waited for: a workload that has no attempt yet, an
 * agent that restarts. It ends with the attempt.
 */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "control/control_internal.h"
#include "wire/record.h"
#include "wire/spec.h"

enum {
    RETRY_MS = 50,         /* while there is nothing to ask, or nobody */
    FOLLOW_WAIT_MS = 5000, /* a node holds a question that long before it says "nothing new" */
    CLIENT_BEHIND_MAX = 512 << 10, /* then the next piece waits */
};

struct log_stream {
    struct list link; /* control.log_streams */
    struct control *control;
    struct http_stream *stream;
    struct waiter *asked; /* a question is under way */
    struct event *timer;
    uint64_t workload, offset;
    int attempt; /* 0: the first one there will be */
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

static void log_stream_end(struct log_stream *s)
{
    http_stream_end(s->stream);
    log_stream_free(s);
}

static void on_closed(void *arg)
{
    log_stream_free(arg);
}

static void later(struct log_stream *s)
{
    struct timeval tv = {.tv_usec = RETRY_MS * 1000};
    evtimer_add(s->timer, &tv);
}

static void pump(struct log_stream *s);

static void on_piece(struct waiter *w, const struct nodemsg *msg)
{
    struct log_stream *s = w->arg;
    s->asked = NULL;
    waiter_free(w);
    if (!msg || msg->result < 0) {
        /* The node went away, or has not got the grant yet. */
        if (s->follow)
            later(s);
        else
            log_stream_end(s);
        return;
    }
    s->offset = msg->offset + msg->length;
    if (msg->length && !http_stream_write(s->stream, msg->data, msg->length))
        return; /* closed: freed */
    if (msg->end || (!s->follow && msg->length == 0))
        log_stream_end(s);
    else
        pump(s);
}

/* Asks the node for the next piece, or waits for what is in the way. */
static void pump(struct log_stream *s)
{
    struct control *c = s->control;
    struct located at;
    if (http_stream_pending(s->stream) > CLIENT_BEHIND_MAX) {
        later(s);
        return;
    }
    struct error e = {0};
    int r = control_locate(&e, c, s->workload, s->attempt, &at);
    if (r < 0 || (!at.attempt && at.terminal)) {
        log_stream_end(s); /* it ended without ever having run */
        return;
    }
    s->attempt = at.attempt;
    struct node_link *link = at.attempt ? links_find(c, at.node) : NULL;
    struct waiter *w = link ? waiter_new(c, NULL) : NULL;
    if (!w) {
        if (s->follow && (!at.attempt || at.open))
            later(s);
        else
            log_stream_end(s);
        return;
    }
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
    if (!at.attempt && !s->follow)
        return error_set(e, ERR_CONFLICT, "it has not run yet: %s", at.text);
    if (at.attempt && !s->follow && !links_find(c, at.node))
        return error_set(e, ERR_UNAVAILABLE, "node '%s', which has the output, is not connected",
                         at.node);
    return 0;
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
    list_append(&c->log_streams, &s->link);
    s->stream = http_stream_begin(r, "text/plain; charset=utf-8", on_closed, s);
    if (s->stream)
        pump(s);
    else
        log_stream_free(s);
}

void log_streams_close_all(struct control *c)
{
    while (!list_empty(&c->log_streams))
        log_stream_end(list_entry(c->log_streams.next, struct log_stream, link));
}
