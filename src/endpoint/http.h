/*
 * HTTP/1.1 server of the API on libevent's loop, on unix sockets and on TCP with TLS 1.3, with the
 * limits, identities and error format of gpumux. The server knows no route of the product; control/
 * passes a table of routes.
 *
 * The server does not use evhttp, which cannot limit the number of connections, sends its own
 * errors as HTML, and needs four system calls for a response where one is enough.
 *
 * A handler either responds at once (http_answer*), or keeps the request and responds later on the
 * loop's thread. Every struct http_request stays valid until its response, even if the client
 * leaves meanwhile; http_answer*() then only frees the request.
 *
 * This folder contains the HTTP server. Files of the folder endpoint may include base, model, wire,
 * tls.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "model/workload.h"

struct bufferevent;
struct certificate_facts;
struct event_base;
struct http_server;
struct http_request;
struct http_stream;
struct tls_context;

enum {
    HTTP_BODY_MAX = 8 << 20,
    HTTP_REQUEST_ARENA_MAX = 128 << 20, /* bytes of memory for handling one request */
    HTTP_HEADER_MAX = 64 << 10,
    HTTP_PATH_PARTS_MAX = 4,
    HTTP_STREAM_PENDING_MAX = 1 << 20, /* bytes buffered for a slow client; a stream past the limit
                                        * is closed */
};

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_METHOD_END };

/* Roles in ascending order; each role includes the rights of the roles before it. */
enum http_role { HTTP_ANYBODY, HTTP_VIEWER, HTTP_USER, HTTP_ADMIN, HTTP_ROLE_END };

enum http_peer_kind {
    HTTP_PEER_UNIX,     /* peer of a unix socket, with uid, gid and pid from the kernel */
    HTTP_PEER_STRANGER, /* peer from the network without an identity so far */
    HTTP_PEER_NODE,     /* peer from the network with a node's certificate; `account` is the node's
                         * name */
    HTTP_PEER_TOKEN,    /* peer whose request carries a token; http_authorize sets `token` and
                         * `account` */
};

/* The peer that sends a request. The connection sets the members that it knows; http_authorize sets
 * role, token and account. */
struct http_peer {
    enum http_peer_kind kind;
    enum http_role role;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    uint64_t token; /* number of the token; 0: none */
    char account[USER_NAME_MAX];
};

typedef void (*http_handler)(void *context, struct http_request *request);

struct http_route {
    enum http_method method;
    const char *path; /* path such as "/v1/workloads/{id}/logs"; {…} matches one segment */
    http_handler handler;
    enum http_role least; /* least role that may use the route */
};

/* Decides whether the peer may use a route that needs the role `least`, and completes *peer.
 * Returns 0, -ERR_UNAUTHENTICATED or -ERR_DENIED; with an error the server sends that error and
 * calls no handler. */
typedef int (*http_authorize)(struct error *e, void *context, const struct http_request *r,
                              enum http_role least, struct http_peer *peer);

/* Called for a connection on which a client asked for the protocol of nodes, with the client's
 * verified certificate. The callee owns the stream. */
typedef void (*http_on_node)(void *context, struct bufferevent *stream,
                             const struct certificate_facts *peer);

struct http_counters {
    uint64_t requests, connections_open, connections_refused, streams_open;
    uint64_t by_status[6]; /* index 1 for 1xx to index 5 for 5xx */
    uint64_t handshakes_failed;
};

/*
 * Makes a server without a socket; see http_server_listen_*. `routes` ends with a NULL path and
 * outlives the server. An unknown path gets 404; a known path with another method gets 405 and
 * Allow. One local user may use only a part of connections_max. The uid 0 and the daemon's uid may
 * use all connections, and a few connections are reserved for these two uids.
 */
int http_server_new(struct error *e, struct event_base *base, const struct log *log,
                    const struct http_route *routes, void *context, size_t connections_max,
                    struct http_server **ret);
/* Listens on a unix socket with the given mode, and replaces a stale socket file. Returns 0, an
 * error, or -ERR_BUSY if another program listens on `path`. */
int http_server_listen_unix(struct error *e, struct http_server *s, const char *path, mode_t mode);
/* Sets the check of every request; without a check all routes are open to everybody. */
void http_server_set_authorize(struct http_server *s, http_authorize authorize);
/*
 * Listens on TCP with TLS 1.3 only; may be called once. Port "0" selects a free port, and *ret_port
 * is the chosen port. The server borrows the context until http_server_replace_tls(). A handshake
 * that fails or exceeds HTTP_HANDSHAKE_MS is refused and logged.
 */
int http_server_listen_tls(struct error *e, struct http_server *s, const char *host,
                           const char *port, struct tls_context *tls, http_on_node on_node,
                           uint16_t *ret_port);
/* Sets the context for new connections, after a certificate was renewed. */
void http_server_replace_tls(struct http_server *s, struct tls_context *tls);
/* Closes the streams whose request carried this token, after the token was revoked. */
void http_server_end_token(struct http_server *s, uint64_t token);
/* Stops listening, closes streams (calling closed()) and closes connections. A request that a
 * handler kept stays valid until its response. */
void http_server_free(struct http_server *s);
void http_server_count(const struct http_server *s, struct http_counters *ret);

/* Properties of a request. Strings live as long as the request. */
struct arena *http_request_arena(struct http_request *r);
const struct http_peer *http_request_peer(const struct http_request *r);
/* Returns the segment that matched {name}, URL-decoded; NULL if the route has no such segment. */
const char *http_request_part(const struct http_request *r, const char *name);
/* Returns a query parameter, URL-decoded, or NULL. */
const char *http_request_query(const struct http_request *r, const char *name);
const char *http_request_header(const struct http_request *r, const char *name);
const char *http_request_body(const struct http_request *r, size_t *ret_length);
/* Checks that `known`, a list ended by NULL, contains the name of every query parameter. Returns 0,
 * or -ERR_INVALID with the unknown name. */
int http_request_check_query(struct error *e, const struct http_request *r,
                             const char *const *known);

/* Send a response and free the request. The body is copied. */
void http_answer_json(struct http_request *r, int status, const char *json, size_t length);
void http_answer_text(struct http_request *r, int status, const char *type, const char *text,
                      size_t length);
/* Sends a problem document (RFC 9457) and frees the request: {"type": "urn:gpumux:problem:…",
 * "title", "status", "detail", "field"?}. */
void http_answer_error(struct http_request *r, const struct error *e);

/*
 * Streams: server-sent events, or a plain chunked body. A stream outlives its request, until
 * http_stream_end() or until the server calls closed(arg) because the client left or fell behind.
 * closed() may free `arg`, and must not use the stream.
 */
typedef void (*http_stream_closed)(void *arg);
/* Frees the request. Returns NULL, without calling closed(), if the client is gone or memory is
 * out. */
struct http_stream *http_stream_begin(struct http_request *r, const char *content_type,
                                      http_stream_closed closed, void *arg);
/* Returns false after calling closed(), if the client is gone or too far behind. */
bool http_stream_write(struct http_stream *s, const void *data, size_t length);
/* Writes "id: …\nevent: …\ndata: …\n\n"; data must not contain a newline. */
bool http_stream_event(struct http_stream *s, uint64_t id, const char *event, const char *data);
/* Returns the number of buffered bytes. A sender of large data waits while the number is large. */
size_t http_stream_pending(const struct http_stream *s);
void http_stream_end(struct http_stream *s);
/* Aborts the stream and calls closed(). An HTTP/1.1 client detects that the body is incomplete; an
 * HTTP/1.0 client cannot. */
void http_stream_break(struct http_stream *s);
