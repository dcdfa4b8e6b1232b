/*
 * A connection of the API server: reads requests one after the other, hands each to its route, and
 * writes answers. Shared by connection.c (reading, writing, ending), answer.c (what a handler can
 * do) and http.c (listening, time limits).
 *
 * A connection has at most one request at work. What a client sends meanwhile waits in `in`, which
 * is bounded; so is `out`.
 */
#pragma once
#include <event2/buffer.h>
#include <event2/event.h>
#include <sys/uio.h>

#include "base/list.h"
#include "endpoint/http_internal.h"

struct connection;

struct http_server {
    struct event_base *base;
    const struct log *log;
    const struct http_route *routes;
    void *context;
    size_t connections_max;
    struct list connections;
    struct list listeners;
    struct event *sweep; /* ends what is past its time, while there are connections */
    struct http_timeouts timeouts;
    struct http_counters counters;
    int64_t date_second; /* of `date`, which is made once a second */
    char date[40];
};

struct http_request {
    struct connection *connection; /* NULL: the client is gone */
    struct arena arena;
    struct http_peer peer;
    struct http_request_head head;
    struct http_parts parts;
    const char *body;
    size_t body_length;
};

struct http_stream {
    struct connection *connection;
    bool chunked;
    http_stream_closed closed;
    void *arg;
};

struct connection {
    struct list link;
    struct http_server *server;
    int fd;
    struct http_peer peer;
    struct event *read_event, *write_event;
    char *in;
    size_t in_length, in_capacity;
    size_t scanned;     /* of the head that is coming in */
    size_t head_length; /* of `incoming` */
    struct evbuffer *out;
    struct http_request *incoming; /* its head is here, its body is not yet */
    struct http_request *request;  /* at work */
    struct http_stream *stream;
    int64_t deadline_ms;  /* on the boot clock; INT64_MAX: none */
    bool close_when_sent; /* after the answer that is being written */
    bool lingers;         /* answered and done: whatever still comes is dropped */
    bool at_end;          /* the client will send no more */
    bool processing;      /* connection_process is on the stack: it goes on to the next request */
    bool read_paused;     /* `in` is full */
    bool dead;            /* freed as soon as nobody holds it */
    int holds;            /* callers that will look at it again */
    bool continue_was_sent;
};

/* Takes the descriptor. -ERR_NO_MEMORY: it is closed. */
int connection_new(struct http_server *server, int fd, const struct http_peer *peer);
/* Ends it at once, whatever it is doing; calls closed() of its stream. */
void connection_close(struct connection *c);
/* Between the two its memory stays, also when it ends. release: false when it did. */
void connection_hold(struct connection *c);
bool connection_release(struct connection *c);
/* Sends, and keeps what the client does not take yet. The connection may be gone afterwards, unless held. */
void connection_send(struct connection *c, const struct iovec *pieces, int count);
/* Appends without sending: at the loop's next turn, with what else has come by then. */
int connection_send_later(struct connection *c, const void *data, size_t length);
/* Tries to send what is kept. The connection may be gone afterwards, unless held. */
void connection_flush(struct connection *c);
/* The request at work was answered in full: on to the next, from the loop. */
void connection_answered(struct connection *c);

struct http_request *request_new(struct connection *c);
void request_free(struct http_request *r);
/* The Date of a response. */
const char *server_date(struct http_server *s);
/* A 405 says what the path takes. */
void answer_method_error(struct http_request *r, const struct error *e, unsigned allowed);
