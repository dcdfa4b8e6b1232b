/*
 * The folder http: an HTTP client with connections, responses and server-sent events. The folder
 * uses tls and addresses, and no other format of wire.
 *
 * A small HTTP/1.1 client over unix sockets and over TLS: one connection, kept alive between
 * requests, every wait with a deadline. The client never repeats a request, because only the caller
 * knows whether a repetition is safe. One thread uses a client.
 *
 * Files of the folder wire/http may include base, tls, wire.
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
    const char *method;                                  /* such as "GET" */
    const char *target;                                  /* percent-encoded path and query */
    const char *content_type, *accept, *idempotency_key; /* header values; NULL: no such header */
    const void *body;
    size_t body_length;
    int64_t timeout_ms;   /* time for the whole call, from now */
    http_body_fn on_body; /* receives the body; NULL: the client collects up to HTTP_CLIENT_BODY_MAX
                           * bytes */
    void *arg;
};

/* Makes a client without connecting. Returns NULL when out of memory, or if the path is too long
 * for a socket. */
struct http_client *http_client_new(const char *socket_path);
/* Makes a client over TLS without connecting. The client borrows the context `tls`, and copies
 * `token`, which has neither spaces nor line ends; every request carries the token (NULL: none).
 * Returns NULL when out of memory. */
struct http_client *http_client_new_tls(const struct address *address, struct tls_context *tls,
                                        const char *token);
void http_client_free(struct http_client *c);
/* Called once per second while a call waits for the peer, with the start and the deadline of the
 * wait. */
typedef void (*http_wait_fn)(void *arg, int64_t since_boot_ms, int64_t deadline_boot_ms);
void http_client_on_wait(struct http_client *c, http_wait_fn on_wait, void *arg);

/* Sends one request and receives its response; status and body stay valid until the next call.
 * Returns 0, -ERR_UNAVAILABLE (no listener, or the connection broke before the response),
 * -ERR_DENIED (no access to the socket, or a refused certificate), -ERR_TIMEOUT, -ERR_PROTOCOL,
 * -ERR_TOO_LARGE or on_body's result. An error closes the connection; the next call reconnects. */
int http_client_call(struct error *e, struct http_client *c, const struct http_call *call);

/* Sends a request, for a caller that waits for other descriptors too. The caller then calls
 * http_client_receive() whenever the descriptor is readable, until the response is complete. */
int http_client_send(struct error *e, struct http_client *c, const struct http_call *call);
/* Waits up to timeout_ms (0: does not wait) for bytes, and handles the bytes that arrived. */
int http_client_receive(struct error *e, struct http_client *c, int64_t timeout_ms, bool *ret_done);
/* Returns the descriptor for poll(); -1 while not connected. */
int http_client_fd(const struct http_client *c);
/* Aborts the request in flight and closes the connection. */
void http_client_close(struct http_client *c);

/* Return properties of the response. The status is 0 before the response has arrived. */
int http_client_status(const struct http_client *c);
const char *http_client_type(const struct http_client *c);
const char *http_client_server(const struct http_client *c); /* server, as in struct http_head */
/* Returns the collected body. With on_body, only the body of a response with a status ≥ 300 is
 * collected, because such a body explains an error. */
const char *http_client_body(const struct http_client *c, size_t *ret_length);

/* Appends text percent-encoded, fit for a path segment or a query value. */
void http_append_encoded(struct str *out, const char *text);
