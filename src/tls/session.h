/*
 * One TLS connection over a non-blocking socket. No call blocks: a call that cannot proceed sets
 * *ret_want to the socket event for which the caller must wait.
 *
 * The caller owns the socket until tls_session_into_stream().
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tls/certificate.h"
#include "tls/context.h"

struct bufferevent;
struct event_base;
struct tls_session;

enum tls_want { TLS_DONE, TLS_WANT_READ, TLS_WANT_WRITE };

/* Makes a session over a connected socket. A client passes the name or address of the server as
 * `host`; a server passes NULL. */
int tls_session_new(struct error *e, struct tls_context *context, int fd, const char *host,
                    struct tls_session **ret);
void tls_session_free(struct tls_session *s);

/*
 * Continues the handshake; the caller repeats the call until *ret_want is TLS_DONE. Returns 0,
 * -ERR_DENIED (one side refuses the other's certificate), -ERR_PROTOCOL (not TLS, or not TLS 1.3)
 * or -ERR_UNAVAILABLE (the connection broke).
 */
int tls_session_handshake(struct error *e, struct tls_session *s, enum tls_want *ret_want);
/* Reads bytes. TLS_DONE with 0 bytes means the end of the peer's data. */
int tls_session_read(struct error *e, struct tls_session *s, void *data, size_t room,
                     size_t *ret_bytes, enum tls_want *ret_want);
/* Returns whether bytes can be read without the socket becoming readable again. */
bool tls_session_has_more(const struct tls_session *s);
/* Writes all or a part of the bytes. After a result other than TLS_DONE the next call must offer
 * the same bytes, at any address. */
int tls_session_write(struct error *e, struct tls_session *s, const void *data, size_t length,
                      size_t *ret_bytes, enum tls_want *ret_want);
/* Announces the end of this side's data to the peer, if the socket accepts bytes now. */
void tls_session_shutdown(struct tls_session *s);

/* Returns the protocol, once the handshake is done. */
enum tls_protocol tls_session_protocol(const struct tls_session *s);
/* Reads the verified certificate of the peer. Returns 0, or -ERR_NOT_FOUND if the peer has no
 * certificate. */
int tls_session_peer(struct error *e, const struct tls_session *s, struct certificate_facts *ret);

/*
 * Turns a session into a stream, a bufferevent of libevent. The stream owns the session and the
 * socket, and closes both when freed. On failure the call closes both and returns NULL.
 */
struct bufferevent *tls_session_into_stream(struct tls_session *s, struct event_base *base, int fd);
/* Makes a client's stream whose handshake begins when fd is connected, and ends with
 * BEV_EVENT_CONNECTED. The stream owns the descriptor; on failure the call closes the descriptor
 * and returns NULL. */
struct bufferevent *tls_stream_connect(struct error *e, struct tls_context *context,
                                       struct event_base *base, int fd, const char *host);
/* Sets the error for a stream's BEV_EVENT_ERROR. Returns the errors of tls_session_handshake(). */
int tls_stream_error(struct error *e, struct bufferevent *stream);
