/*
 * A connection of the API server: reads requests one after the other, passes each to its route, and
 * writes responses. Its parts are connection.c (reading, writing, closing), transport.c (the bytes
 * on the wire), answer.c (the functions for handlers), http.c (listening, time limits) and
 * handshake.c (TLS handshakes, before the connection exists).
 *
 * A connection has at most one request in flight. Bytes that the client sends meanwhile wait in
 * `in`. Both `in` and `out` are bounded.
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
    char *path; /* path of a unix socket, removed at the end; NULL: TCP */
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
    struct list handshakes; /* list of struct handshake */
    size_t handshake_count;
    int64_t refusals_since_boot_ms; /* start of the period over which logged refusals are counted
                                     * and limited */
    uint64_t refusals_logged, refusals_unlogged;
    struct event *sweep; /* timer that closes connections past their deadline; pending while
                          * connections exist */
    struct http_timeouts timeouts;
    struct http_counters counters;
    int64_t date_second; /* second that `date` shows; a new text is made once per second */
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
    uint64_t token; /* number of the token of the stream's request; 0: none */
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
    size_t scanned;     /* bytes of the incoming head that were searched for its end */
    size_t head_length; /* bytes of the head of `incoming` */
    struct evbuffer *out;
    struct http_request *incoming; /* request whose head is complete and whose body is not */
    struct http_request *request;  /* request that a handler is working on */
    struct http_stream *stream;
    int64_t deadline_ms;   /* time on the boot clock at which the connection is closed; INT64_MAX:
                            * none */
    bool close_when_sent;  /* close after the response that is being written */
    bool lingers;          /* response sent; further input is dropped */
    bool at_end;           /* the client has closed its sending side */
    bool processing;       /* connection_process() is on the stack and will continue with the next
                            * request */
    bool read_paused;      /* `in` is full */
    bool read_wants_write; /* TLS must write before it can continue to read */
    bool dead;             /* freed when the last hold is released */
    int holds;             /* number of callers that still use the connection */
    bool continue_was_sent;
};

/* Makes a connection that owns the descriptor and the session, which may be NULL. Returns 0, or
 * -ERR_NO_MEMORY and releases both. */
int connection_new(struct http_server *server, int fd, struct tls_session *tls,
                   const struct http_peer *peer);
/* Closes the connection at once, in any state, and calls closed() of its stream. */
void connection_close(struct connection *c);
/* connection_hold() keeps the memory of the connection until connection_release(), even if the
 * connection is closed in between. connection_release() returns false if the connection was
 * closed. */
void connection_hold(struct connection *c);
bool connection_release(struct connection *c);
/* Sends the pieces, and buffers the bytes that the socket does not accept yet. The call may free
 * the connection, unless a caller holds the connection. */
void connection_send(struct connection *c, const struct iovec *pieces, int count);
/* Buffers without sending. The loop sends the buffer at its next turn. */
int connection_send_later(struct connection *c, const void *data, size_t length);
/* Tries to send the buffered bytes. The call may free the connection, unless a caller holds the
 * connection. */
void connection_flush(struct connection *c);
/* Reports that the response to the request in flight is complete. The loop continues with the next
 * request. */
void connection_answered(struct connection *c);

/* transport.c: like recv() and sendmsg() without blocking: return bytes, 0 at the end, or -1 and
 * set errno. */
ssize_t transport_receive(struct connection *c, void *data, size_t room);
ssize_t transport_send(struct connection *c, const struct iovec *pieces, int count);
/* Returns whether TLS has read bytes from the socket that transport_receive() has not returned yet.
 * The socket does not become readable for these bytes. */
bool transport_has_more(const struct connection *c);
/* Closes the sending side. */
void transport_end(struct connection *c);

/* http.c: adds a listener for a bound socket. The call takes ownership of the socket, and closes
 * the socket on failure. */
int server_add_listener(struct error *e, struct http_server *s, int fd, const char *path,
                        void (*on_accept)(struct evconnlistener *, int, struct sockaddr *, int,
                                          void *));
/* Starts the timer of time limits; to be called after anything with a time limit was added. */
void server_watch_time(struct http_server *s);
/* Returns the reason why the peer may not open another connection; NULL if the peer may. */
const char *server_refuses(const struct http_server *s, const struct http_peer *peer);
/* Returns whether the peer may send `bytes` more of large requests, besides all large requests that
 * are incoming. */
bool server_has_room(const struct http_server *s, const struct http_peer *peer, size_t bytes);
/* Writes the complete response to a refused connection. A buffer of HTTP_REFUSAL_MAX bytes is large
 * enough. */
size_t server_write_refusal(struct http_server *s, const char *why, char *text, size_t size);

/* handshake.c */
void handshakes_end_overdue(struct http_server *s, int64_t now_boot_ms);
void handshakes_end_all(struct http_server *s);

struct http_request *request_new(struct connection *c);
void request_free(struct http_request *r);
/* Returns the Date header's value. */
const char *server_date(struct http_server *s);
/* Sends a 405 that lists the methods of the path. */
void answer_method_error(struct http_request *r, const struct error *e, unsigned allowed);
