/*
 * Connects a node to control, by a unix socket on the same machine or by TLS to a host. The
 * receiver gets a stream that is still connecting; the event BEV_EVENT_CONNECTED follows.
 *
 * This folder contains the connection to control. Files of the folder node/link may include base,
 * model, wire, tls, node, node/device.
 */
#pragma once
#include "base/error.h"

struct bufferevent;
struct event_base;
struct tls_context;
struct dial;

/* Receives the result of dial_start(), and owns the stream; NULL: failed, see *why. */
typedef void (*dial_made)(void *arg, struct bufferevent *stream, const struct error *why);

int dial_new_unix(struct error *e, struct event_base *base, const char *path, dial_made made,
                  void *arg, struct dial **ret);
/* Makes a dial over TLS, which needs dial_trust() before dial_start(). */
int dial_new_tls(struct error *e, struct event_base *base, const char *host, const char *port,
                 dial_made made, void *arg, struct dial **ret);
void dial_free(struct dial *d);
/* Sets the TLS context of later connections. The dial owns the context. */
void dial_trust(struct dial *d, struct tls_context *context);
/* Starts connecting to the next address of the host, and cancels a start in flight. Calls `made`
 * once, possibly before dial_start() returns. */
void dial_start(struct dial *d);
void dial_cancel(struct dial *d);
