/*
 * HTTP/1.1 server of the API on libevent's loop, on unix sockets and on TCP with TLS 1.3, with our
 * limits, identities and error format. It knows no route of the product; control/ hands it a table.
 *
 * evhttp is not used: it cannot refuse connections past a number, answers its own errors in HTML,
 * and a response costs it four system calls where one does.
 *
 * A handler answers at once (http_answer*), or keeps the request and answers later from the loop
 * thread: every struct http_request stays valid until it was answered, also when the client goes
 * away meanwhile (http_answer then only frees it).
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
    HTTP_REQUEST_ARENA_MAX = 128 << 20, /* what handling one request may take */
    HTTP_HEADER_MAX = 64 << 10,
    HTTP_PATH_PARTS_MAX = 4,
    HTTP_STREAM_PENDING_MAX = 1 << 20, /* bytes a slow watcher may be behind; then it is cut off */
};

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_METHOD_END };

/* What somebody may do; each may do what those before it may. */
enum http_role { HTTP_ANYBODY, HTTP_VIEWER, HTTP_USER, HTTP_ADMIN, HTTP_ROLE_END };

enum http_peer_kind {
    HTTP_PEER_UNIX,     /* the peer of a unix socket, as the kernel says: uid, gid, pid */
    HTTP_PEER_STRANGER, /* came over the network and showed nothing, yet */
    HTTP_PEER_NODE,     /* came over the network with a node's certificate: account is its name */
    HTTP_PEER_TOKEN,    /* showed a token with this request: token, account */
};

/* Who asks. The connection fills in what it knows; role and token come from http_authorize. */
struct http_peer {
    enum http_peer_kind kind;
    enum http_role role;
    uid_t uid;
    gid_t gid;
    pid_t pid;
    uint64_t token; /* its number; 0: none */
    char account[USER_NAME_MAX];
};

typedef void (*http_handler)(void *context, struct http_request *request);

struct http_route {
    enum http_method method;
    const char *path; /* "/v1/workloads/{id}/logs": {…} matches one part */
    http_handler handler;
    enum http_role least; /* who may ask */
};

/* Decides whether the peer may ask for something that takes the role `least`, and completes *peer.
 * -ERR_UNAUTHENTICATED or -ERR_DENIED: the request is answered so, and its handler not called. */
typedef int (*http_authorize)(struct error *e, void *context, const struct http_request *r,
                              enum http_role least, struct http_peer *peer);

/* A connection on which a client asked for the protocol of nodes, with the certificate that it
 * proved to have. The stream is the receiver's. */
typedef void (*http_on_node)(void *context, struct bufferevent *stream,
                             const struct certificate_facts *peer);

struct http_counters {
    uint64_t requests, connections_open, connections_refused, streams_open;
    uint64_t by_status[6]; /* 1xx … 5xx at [1] … [5] */
    uint64_t handshakes_failed;
};

/*
 * routes: ended by one with path NULL; must outlive the server. Unknown paths are answered with
 * 404, known paths with another method with 405 and Allow. No socket yet: see http_server_listen.
 * Of connections_max one user of this machine has a part, unless it is root or our own: they may
 * have all, and a few are kept for them.
 */
int http_server_new(struct error *e, struct event_base *base, const struct log *log,
                    const struct http_route *routes, void *context, size_t connections_max,
                    struct http_server **ret);
/* Listens on a unix socket at `path` (mode as given), replacing a dead one; -ERR_BUSY if one
 * answers. */
int http_server_listen_unix(struct error *e, struct http_server *s, const char *path, mode_t mode);
/* Without it every route is for everybody. */
void http_server_set_authorize(struct http_server *s, http_authorize authorize);
/*
 * Listens on TCP, with TLS alone; may be called once. port "0": any that is free. *ret_port: the
 * one it is. The context stays the caller's, and must outlive the server or be replaced. A
 * handshake has HTTP_HANDSHAKE_MS; what is not TLS 1.3 is refused, with a line in the log.
 */
int http_server_listen_tls(struct error *e, struct http_server *s, const char *host,
                           const char *port, struct tls_context *tls, http_on_node on_node,
                           uint16_t *ret_port);
/* For connections from now on: a certificate was renewed. */
void http_server_replace_tls(struct http_server *s, struct tls_context *tls);
/* Ends the streams that were asked for with this token: it is not good any more. */
void http_server_end_token(struct http_server *s, uint64_t token);
/* Stops listening, ends streams (closed is called), closes connections. Requests that a handler
 * kept stay valid until it answers them. */
void http_server_free(struct http_server *s);
void http_server_count(const struct http_server *s, struct http_counters *ret);

/* The request. Strings live as long as it does. */
struct arena *http_request_arena(struct http_request *r);
const struct http_peer *http_request_peer(const struct http_request *r);
/* The part that matched {name}; URL-decoded. NULL: the route has no such part. */
const char *http_request_part(const struct http_request *r, const char *name);
/* A query parameter, decoded, or NULL. */
const char *http_request_query(const struct http_request *r, const char *name);
const char *http_request_header(const struct http_request *r, const char *name);
const char *http_request_body(const struct http_request *r, size_t *ret_length);
/* Every query parameter's name must be in `known` (NULL-ended); else -ERR_INVALID names it. */
int http_request_check_query(struct error *e, const struct http_request *r,
                             const char *const *known);

/* Answers; the request is gone afterwards. body is copied. */
void http_answer_json(struct http_request *r, int status, const char *json, size_t length);
void http_answer_text(struct http_request *r, int status, const char *type, const char *text,
                      size_t length);
/* RFC 9457: {"type": "urn:gpumux:problem:…", "title", "status", "detail", "field"?}. */
void http_answer_error(struct http_request *r, const struct error *e);

/*
 * Long answers: server-sent events, or a plain chunked body. The stream outlives the request (which
 * is gone) until http_stream_end, or until closed(arg) was called because the client left or fell
 * behind; closed may free what arg points to, but must not touch the stream any more.
 */
typedef void (*http_stream_closed)(void *arg);
/* NULL: the client is gone already, or memory is out; the request is gone, closed is not called. */
struct http_stream *http_stream_begin(struct http_request *r, const char *content_type,
                                      http_stream_closed closed, void *arg);
/* false: the client is too far behind or gone; closed() has been called. */
bool http_stream_write(struct http_stream *s, const void *data, size_t length);
/* "id: …\nevent: …\ndata: …\n\n"; data must not hold a newline. */
bool http_stream_event(struct http_stream *s, uint64_t id, const char *event, const char *data);
/* Bytes not yet taken by the client: a sender of much should wait while this is large. */
size_t http_stream_pending(const struct http_stream *s);
void http_stream_end(struct http_stream *s);
/* Breaks it off: the client sees that something is missing, unless it speaks HTTP/1.0. closed() is
 * called. */
void http_stream_break(struct http_stream *s);
