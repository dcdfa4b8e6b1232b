/*
 * One TLS connection over a socket that does not block. Every call either gets on or says what the
 * socket must become first (ret_want); nothing here waits.
 *
 * The socket belongs to the caller, until it goes into a stream.
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

/* host: whom a client's connection must reach (a name or an address); NULL on a server. */
int tls_session_new(struct error *e, struct tls_context *context, int fd, const char *host,
                    struct tls_session **ret);
void tls_session_free(struct tls_session *s);

/*
 * Until *ret_want is TLS_DONE. -ERR_DENIED: the other's certificate is not good enough, or ours
 * is not for the other; -ERR_PROTOCOL: not TLS, or not TLS 1.3; -ERR_UNAVAILABLE: the
 * connection broke.
 */
int tls_session_handshake(struct error *e, struct tls_session *s, enum tls_want *ret_want);
/* TLS_DONE and 0 bytes: the other has sent everything. */
int tls_session_read(struct error *e, struct tls_session *s, void *data, size_t room,
                     size_t *ret_bytes, enum tls_want *ret_want);
/* There is more to read already: the socket will not become readable for it. */
bool tls_session_has_more(const struct tls_session *s);
/* May write a part. After wanting, the same bytes must be offered again (at any address). */
int tls_session_write(struct error *e, struct tls_session *s, const void *data, size_t length,
                      size_t *ret_bytes, enum tls_want *ret_want);
/* Tells the other that no more comes; best effort. */
void tls_session_shutdown(struct tls_session *s);

/* After the handshake. */
enum tls_protocol tls_session_protocol(const struct tls_session *s);
/* The other's certificate, which was verified. -ERR_NOT_FOUND: it showed none. */
int tls_session_peer(struct error *e, const struct tls_session *s, struct certificate_facts *ret);

/*
 * Streams: libevent's bufferevents. The stream has the session and the socket afterwards (also when
 * it fails: NULL, both are gone); freeing it closes both.
 */
struct bufferevent *tls_session_into_stream(struct tls_session *s, struct event_base *base, int fd);
/* A client's stream whose handshake begins when fd is connected (BEV_EVENT_CONNECTED when it is
 * done). The descriptor is the stream's afterwards, or closed. */
struct bufferevent *tls_stream_connect(struct error *e, struct tls_context *context,
                                       struct event_base *base, int fd, const char *host);
/* Why a stream had BEV_EVENT_ERROR. Returns as tls_session_handshake does. */
int tls_stream_error(struct error *e, struct bufferevent *stream);
