/*
 * A connection of the API server: reads requests one after the other, hands each to its route, and
 * writes answers. Shared by connection.c (reading, writing, ending), transport.c (the bytes on the
 * wire), answer.c (what a handler can do), http.c (listening, time limits) and handshake.c (what
 * comes before a connection over TLS).
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
struct evconnlistener;
struct tls_session;

struct listener {
    struct list link;
    struct http_server *server;
    struct evconnlistener *accepts;
    char *path; /* of a unix socket, which is removed in the end; NULL: none */
};

struct http_server {
    struct event_base *base;
    const struct log *log;
    const struct http_route *routes;
    void *context;
    size_t connections_max;
    struct list connections;
    struct list listeners;
    http_authorize authorize;
    struct tls_context *tls; /* borrowed; NULL: no TCP */
    http_on_node on_node;
    struct list handshakes; /* struct handshake */
    size_t handshake_count;
    int64_t refusals_since_boot_ms; /* only so many lines in a time, however many knock */
    uint64_t refusals_logged, refusals_unlogged;
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
    uint64_t token; /* with which it was asked for; 0: none */
    http_stream_closed closed;
    void *arg;
};

struct connection {
    struct list link;
    struct http_server *server;
    int fd;
    struct tls_session *tls; /* NULL: plain, on a unix socket */
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
    int64_t deadline_ms;   /* on the boot clock; INT64_MAX: none */
    bool close_when_sent;  /* after the answer that is being written */
    bool lingers;          /* answered and done: whatever still comes is dropped */
    bool at_end;           /* the client will send no more */
    bool processing;       /* connection_process is on the stack: it goes on to the next request */
    bool read_paused;      /* `in` is full */
    bool read_wants_write; /* TLS has something to say before it can go on reading */
    bool dead;             /* freed as soon as nobody holds it */
    int holds;             /* callers that will look at it again */
    bool continue_was_sent;
};

/* Takes the descriptor and the session, which may be NULL. -ERR_NO_MEMORY: both are gone. */
int connection_new(struct http_server *server, int fd, struct tls_session *tls,
                   const struct http_peer *peer);
/* Ends it at once, whatever it is doing; calls closed() of its stream. */
void connection_close(struct connection *c);
/* Between the two its memory stays, also when it ends. release: false when it did. */
void connection_hold(struct connection *c);
bool connection_release(struct connection *c);
/* Sends, and keeps what the client does not take yet. The connection may be gone afterwards,
 * unless held. */
void connection_send(struct connection *c, const struct iovec *pieces, int count);
/* Appends without sending: at the loop's next turn, with what else has come by then. */
int connection_send_later(struct connection *c, const void *data, size_t length);
/* Tries to send what is kept. The connection may be gone afterwards, unless held. */
void connection_flush(struct connection *c);
/* The request at work was answered in full: on to the next, from the loop. */
void connection_answered(struct connection *c);

/* transport.c: as recv and sendmsg, which never block: bytes, 0 at the end, or -1 and errno. */
ssize_t transport_receive(struct connection *c, void *data, size_t room);
ssize_t transport_send(struct connection *c, const struct iovec *pieces, int count);
/* More has been read from the socket than was received: it will not become readable for that. */
bool transport_has_more(const struct connection *c);
/* No more will be sent. */
void transport_end(struct connection *c);

/* http.c: adds a listener for a socket that is bound; the socket is taken, or closed. */
int server_add_listener(struct error *e, struct http_server *s, int fd, const char *path,
                        void (*on_accept)(struct evconnlistener *, int, struct sockaddr *, int,
                                          void *));
/* Sees to it that time limits are kept: after anything was added that has one. */
void server_watch_time(struct http_server *s);
/* Why this peer may not have one connection more; NULL: it may. */
const char *server_refuses(const struct http_server *s, const struct http_peer *peer);
/* Whether as many bytes of large requests may come in from this peer, beside all that do. */
bool server_has_room(const struct http_server *s, const struct http_peer *peer, size_t bytes);
/* The whole answer to a connection too many; HTTP_REFUSAL_MAX bytes do for it. */
size_t server_write_refusal(struct http_server *s, const char *why, char *text, size_t size);

/* handshake.c */
void handshakes_end_overdue(struct http_server *s, int64_t now_boot_ms);
void handshakes_end_all(struct http_server *s);

struct http_request *request_new(struct connection *c);
void request_free(struct http_request *r);
/* The Date of a response. */
const char *server_date(struct http_server *s);
/* A 405 says what the path takes. */
void answer_method_error(struct http_request *r, const struct error *e, unsigned allowed);
