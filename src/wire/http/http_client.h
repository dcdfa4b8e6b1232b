/*
 * The room http: HTTP as a client speaks it: connections, responses, server-sent events. Uses tls
 * and addresses, no other format of wire.
 *
 * A small HTTP/1.1 client over unix sockets and over TLS: one connection, kept alive between
 * requests, every wait with a deadline. It never repeats a request by itself: only the caller knows
 * whether that is safe. Single-threaded use.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "wire/http/http_parse.h"

enum { HTTP_CLIENT_BODY_MAX = 64 << 20 };

struct address;
struct http_client;
struct tls_context;

struct http_call {
    const char *method;                                  /* "GET" */
    const char *target;                                  /* path and query, already encoded */
    const char *content_type, *accept, *idempotency_key; /* NULL: no such header */
    const void *body;
    size_t body_length;
    int64_t timeout_ms;   /* for everything, from now on */
    http_body_fn on_body; /* NULL: the body is gathered (at most HTTP_CLIENT_BODY_MAX) */
    void *arg;
};

/* Does not connect yet. NULL: no memory, or the path is too long for a socket. */
struct http_client *http_client_new(const char *socket_path);
/* Over TLS. tls: stays the caller's, and must outlive the client. token: shown with every request,
 * copied; NULL: none. It has no spaces or line ends in it. NULL: no memory. */
struct http_client *http_client_new_tls(const struct address *address, struct tls_context *tls,
                                        const char *token);
void http_client_free(struct http_client *c);
/* Called once a second while a call waits for the other side: since when, and when the
 * call gives up. */
typedef void (*http_wait_fn)(void *arg, int64_t since_boot_ms, int64_t deadline_boot_ms);
void http_client_on_wait(struct http_client *c, http_wait_fn on_wait, void *arg);

/*
 * The whole of one request: the answer's status and body are there until the next call.
 * -ERR_UNAVAILABLE: nobody listens (errno is kept in the text), or the connection broke before any
 * byte of an answer; -ERR_DENIED: the socket is not for us, or one side does not accept the other's
 * certificate; -ERR_TIMEOUT; -ERR_PROTOCOL; -ERR_TOO_LARGE; or what on_body answered.
 * After an error the connection is closed; the next call makes a new one.
 */
int http_client_call(struct error *e, struct http_client *c, const struct http_call *call);

/* The same in pieces, for a caller that has other things to wait for: send, then receive whenever
 * the descriptor is readable until it is done. */
int http_client_send(struct error *e, struct http_client *c, const struct http_call *call);
/* Waits at most timeout_ms (0: not at all) for bytes and takes what is there. */
int http_client_receive(struct error *e, struct http_client *c, int64_t timeout_ms, bool *ret_done);
/* For poll; -1 while not connected. */
int http_client_fd(const struct http_client *c);
/* Ends what is under way. */
void http_client_close(struct http_client *c);

/* Of the answer; 0 while it has not come. */
int http_client_status(const struct http_client *c);
const char *http_client_type(const struct http_client *c);
const char *http_client_server(const struct http_client *c); /* see struct http_head */
/* The gathered body: all of it, or with on_body that of an answer ≥ 300 (an error's explanation).
 */
const char *http_client_body(const struct http_client *c, size_t *ret_length);

/* Appends text percent-encoded, fit for a path part or a query value. */
void http_append_encoded(struct str *out, const char *text);
