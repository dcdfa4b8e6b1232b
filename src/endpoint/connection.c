#include "endpoint/connection_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tls/session.h"

enum { IN_FIRST_BYTES = 4096, FLUSH_PIECES = 16 };

static void connection_destroy(struct connection *c)
{
    list_remove(&c->link);
    c->server->counters.connections_open--;
    if (c->read_event)
        event_free(c->read_event);
    if (c->write_event)
        event_free(c->write_event);
    if (c->out)
        evbuffer_free(c->out);
    tls_session_free(c->tls);
    close(c->fd);
    free(c->in);
    free(c);
}

void connection_close(struct connection *c)
{
    if (c->dead)
        return;
    c->dead = true;
    if (c->request)
        c->request->connection = NULL; /* the handler still has the request */
    c->request = NULL;
    request_free(c->incoming);
    c->incoming = NULL;
    struct http_stream *stream = c->stream;
    c->stream = NULL;
    if (stream) {
        c->server->counters.streams_open--;
        stream->closed(stream->arg);
        free(stream);
    }
    if (c->holds == 0)
        connection_destroy(c);
}

void connection_hold(struct connection *c)
{
    c->holds++;
}

bool connection_release(struct connection *c)
{
    bool alive = !c->dead;
    if (--c->holds == 0 && c->dead)
        connection_destroy(c);
    return alive;
}

/* ---- time ---- */

static void set_deadline(struct connection *c)
{
    const struct http_timeouts *t = &c->server->timeouts;
    int64_t now_ms = clock_boot_ms();
    if (c->lingers)
        return; /* set once, when lingering began */
    if (evbuffer_get_length(c->out) > 0)
        c->deadline_ms = now_ms + t->answer_ms;
    else if (c->request || c->stream)
        c->deadline_ms = INT64_MAX;
    else if (c->in_length == 0)
        c->deadline_ms = now_ms + t->idle_ms;
    else if (c->deadline_ms > now_ms + t->request_ms)
        c->deadline_ms = now_ms + t->request_ms; /* a further byte does not move the deadline */
}

/* ---- writing ---- */

/* Ends a connection after its last response. Input is read and dropped for a while, because a close
 * with unread input would make the client lose the response. */
static void linger(struct connection *c)
{
    if (c->at_end) {
        connection_close(c);
        return;
    }
    c->lingers = true;
    c->in_length = 0;
    c->deadline_ms = clock_boot_ms() + HTTP_LINGER_MS;
    transport_end(c);
    if (event_add(c->read_event, NULL) < 0)
        connection_close(c);
}

static void sent_everything(struct connection *c)
{
    if (c->close_when_sent && !c->request && !c->stream)
        linger(c);
}

void connection_flush(struct connection *c)
{
    while (evbuffer_get_length(c->out) > 0) {
        struct evbuffer_iovec pieces[FLUSH_PIECES];
        int count = evbuffer_peek(c->out, -1, NULL, pieces, FLUSH_PIECES);
        ssize_t n =
            transport_send(c, (struct iovec *)pieces, count < FLUSH_PIECES ? count : FLUSH_PIECES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (event_add(c->write_event, NULL) < 0)
                connection_close(c);
            return;
        }
        if (n < 0) {
            connection_close(c);
            return;
        }
        evbuffer_drain(c->out, (size_t)n);
        set_deadline(c);
    }
    sent_everything(c);
}

int connection_send_later(struct connection *c, const void *data, size_t length)
{
    if (evbuffer_add(c->out, data, length) < 0 || event_add(c->write_event, NULL) < 0)
        return -ERR_NO_MEMORY;
    return 0;
}

void connection_send(struct connection *c, const struct iovec *pieces, int count)
{
    ssize_t n = 0;
    if (evbuffer_get_length(c->out) == 0) {
        n = transport_send(c, pieces, count);
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            connection_close(c);
            return;
        }
    }
    size_t skip = n > 0 ? (size_t)n : 0;
    for (int i = 0; i < count; i++) {
        size_t here = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;
        skip -= here;
        if (here < pieces[i].iov_len && connection_send_later(c, (char *)pieces[i].iov_base + here,
                                                              pieces[i].iov_len - here) < 0) {
            connection_close(c);
            return;
        }
    }
    if (evbuffer_get_length(c->out) == 0)
        sent_everything(c);
    else
        set_deadline(c);
}

/* ---- reading ---- */

/* Responds to input that is no valid request, and ends the connection. */
static void refuse(struct connection *c, const struct error *e)
{
    struct http_request *r = c->incoming ? c->incoming : request_new(c);
    c->incoming = NULL;
    if (!r) {
        connection_close(c);
        return;
    }
    c->request = r;
    r->head.keep_alive = false;
    http_answer_error(r, e);
}

static void consume(struct connection *c, size_t bytes)
{
    c->in_length -= bytes;
    memmove(c->in, c->in + bytes, c->in_length);
    c->scanned = c->head_length = 0;
    if (c->in_length == 0 && c->in_capacity > HTTP_HEADER_MAX) {
        free(c->in); /* releases the memory of a large body */
        c->in = NULL;
        c->in_capacity = 0;
    }
}

static void dispatch(struct connection *c)
{
    struct http_request *r = c->incoming;
    c->incoming = NULL;
    c->request = r;
    struct error e = {0};
    unsigned allowed = 0;
    const struct http_route *route;
    int result = http_route_find(&e, c->server->routes, &r->arena, r->head.method, r->head.path,
                                 &route, &r->parts, &allowed);
    if (result == -ERR_METHOD)
        answer_method_error(r, &e, allowed);
    else if (result < 0 ||
             (c->server->authorize &&
              c->server->authorize(&e, c->server->context, r, route->least, &r->peer) < 0))
        http_answer_error(r, &e);
    else
        route->handler(c->server->context, r);
}

/* Returns the capacity that `in` needs now: the current request, and at most a head beyond that. */
static size_t in_wanted(const struct connection *c)
{
    if (c->incoming)
        return c->head_length + c->incoming->head.content_length;
    return c->in_capacity < IN_FIRST_BYTES         ? IN_FIRST_BYTES
           : c->in_length < c->in_capacity         ? c->in_capacity
           : c->in_capacity * 2 <= HTTP_HEADER_MAX ? c->in_capacity * 2
                                                   : HTTP_HEADER_MAX;
}

/* Makes room for input. Memory of the size of a head is always granted; most requests need no
 * more. */
static int make_room(struct error *e, struct connection *c)
{
    size_t wanted = in_wanted(c);
    if (wanted <= c->in_capacity)
        return 0;
    if (wanted > HTTP_HEADER_MAX && !server_has_room(c->server, &c->peer, wanted))
        return error_set(e, ERR_UNAVAILABLE,
                         "too many large requests are coming in already: try again in a moment");
    char *in = realloc(c->in, wanted);
    if (!in)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    c->in = in;
    c->in_capacity = wanted;
    return 0;
}

/* Parses a complete head. Returns false if the request was refused. */
static bool take_head(struct connection *c)
{
    struct error e = {0};
    struct http_request *r = request_new(c);
    char *text = r ? arena_strndup(&r->arena, c->in, c->head_length) : NULL;
    if (!text) {
        request_free(r);
        connection_close(c);
        return false;
    }
    c->incoming = r;
    if (http_head_parse(&e, text, c->head_length, &r->head) < 0 || make_room(&e, c) < 0) {
        refuse(c, &e);
        return false;
    }
    c->continue_was_sent = !r->head.expect_continue;
    return true;
}

/* Returns true once the request has its body, and `in` has neither head nor body. */
static bool take_body(struct connection *c)
{
    struct http_request *r = c->incoming;
    size_t body = r->head.content_length;
    if (c->in_length - c->head_length < body) {
        if (!c->continue_was_sent) {
            static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
            struct iovec piece = {.iov_base = (char *)text, .iov_len = sizeof text - 1};
            c->continue_was_sent = true;
            connection_send(c, &piece, 1);
        }
        return false;
    }
    r->body = arena_strndup(&r->arena, c->in + c->head_length, body);
    r->body_length = body;
    if (!r->body) {
        connection_close(c);
        return false;
    }
    consume(c, c->head_length + body);
    return true;
}

/* Makes one step towards the next request. Returns false if more input is needed. */
static bool take_request(struct connection *c)
{
    if (!c->incoming) {
        /* Old clients send an empty line between requests. */
        if (c->in_length >= 2 && memcmp(c->in, "\r\n", 2) == 0)
            consume(c, 2);
        if (c->in_length == 0)
            return false;
        c->head_length = http_head_length(c->in, c->in_length, &c->scanned);
        if (c->head_length == 0 && c->in_length < HTTP_HEADER_MAX)
            return false;
        if (c->head_length == 0 || c->head_length > HTTP_HEADER_MAX) {
            struct error e = {0};
            error_set(&e, ERR_TOO_LARGE, "a head of more than %d bytes", HTTP_HEADER_MAX);
            refuse(c, &e);
            return false;
        }
        if (!take_head(c))
            return false;
    }
    if (!take_body(c))
        return false;
    dispatch(c);
    return true;
}

static bool is_free(const struct connection *c)
{
    return !c->dead && !c->lingers && !c->request && !c->stream && !c->close_when_sent &&
           evbuffer_get_length(c->out) == 0;
}

/* Serves requests until the input has no complete request or a request is in flight. */
static void connection_process(struct connection *c)
{
    connection_hold(c);
    c->processing = true;
    while (is_free(c) && take_request(c))
        ;
    c->processing = false;
    if (!c->dead && c->at_end && (c->stream || is_free(c)))
        connection_close(c);
    if (c->read_paused && c->in_length < HTTP_HEADER_MAX) {
        c->read_paused = false;
        if (!c->dead && event_add(c->read_event, NULL) < 0)
            connection_close(c);
        else if (!c->dead && transport_has_more(c))
            event_active(c->read_event, EV_READ, 0);
    }
    if (connection_release(c))
        set_deadline(c);
}

/* Reads available input. Returns false if the connection is gone. */
static bool receive(struct connection *c)
{
    if (make_room(NULL, c) < 0) {
        connection_close(c);
        return false;
    }
    size_t room = c->in_capacity - c->in_length;
    if (room == 0) { /* pipelining: further requests wait for the response */
        event_del(c->read_event);
        c->read_paused = true;
        return true;
    }
    ssize_t n = transport_receive(c, c->in + c->in_length, room);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        connection_close(c);
        return false;
    }
    if (n == 0) {
        c->at_end = true;
        event_del(c->read_event);
        if (c->lingers) {
            connection_close(c);
            return false;
        }
    }
    if (n > 0 && !c->lingers)
        c->in_length += (size_t)n;
    return true;
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct connection *c = arg;
    if (!c->at_end && !receive(c))
        return;
    connection_hold(c);
    if (!c->lingers)
        connection_process(c);
    /* The socket does not become readable for bytes that TLS has already read. */
    if (!c->dead && !c->at_end && !c->read_paused && transport_has_more(c))
        event_active(c->read_event, EV_READ, 0);
    (void)connection_release(c);
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct connection *c = arg;
    if (c->read_wants_write) {
        c->read_wants_write = false;
        event_active(c->read_event, EV_READ, 0);
    }
    connection_hold(c);
    connection_flush(c);
    if (connection_release(c) && evbuffer_get_length(c->out) == 0 && !c->lingers)
        connection_process(c);
}

void connection_answered(struct connection *c)
{
    if (c->lingers || c->processing)
        return;
    /* Deferred to the loop: the caller is a handler, below which the next request would run. */
    if (c->in_length > 0 || c->at_end)
        event_active(c->read_event, EV_READ, 0);
    else
        set_deadline(c);
}

int connection_new(struct http_server *server, int fd, struct tls_session *tls,
                   const struct http_peer *peer)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        tls_session_free(tls);
        close(fd);
        return -ERR_NO_MEMORY;
    }
    c->server = server;
    c->fd = fd;
    c->tls = tls;
    c->peer = *peer;
    c->deadline_ms = clock_boot_ms() + server->timeouts.idle_ms;
    list_append(&server->connections, &c->link);
    server->counters.connections_open++;
    c->out = evbuffer_new();
    c->read_event = event_new(server->base, fd, EV_READ | EV_PERSIST, on_read, c);
    c->write_event = event_new(server->base, fd, EV_WRITE, on_write, c);
    if (!c->out || !c->read_event || !c->write_event || event_add(c->read_event, NULL) < 0) {
        connection_destroy(c);
        return -ERR_NO_MEMORY;
    }
    if (transport_has_more(c))
        event_active(c->read_event, EV_READ, 0);
    return 0;
}
