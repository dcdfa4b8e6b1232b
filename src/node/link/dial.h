/*
 * The way from a node to control: a unix socket on the same machine, or TLS to a host. Makes
 * streams that are on their way: BEV_EVENT_CONNECTED says that one has arrived.
 */
#pragma once
#include "base/error.h"

struct bufferevent;
struct event_base;
struct tls_context;
struct dial;

/* How dial_start ended. The stream is the receiver's; NULL: there is none, and *why says why. */
typedef void (*dial_made)(void *arg, struct bufferevent *stream, const struct error *why);

int dial_new_unix(struct error *e, struct event_base *base, const char *path, dial_made made,
                  void *arg, struct dial **ret);
/* Without a context yet: see dial_trust. */
int dial_new_tls(struct error *e, struct event_base *base, const char *host, const char *port,
                 dial_made made, void *arg, struct dial **ret);
void dial_free(struct dial *d);
/* Whom to trust and what to show, from the next connection on. The context is the dial's. */
void dial_trust(struct dial *d, struct tls_context *context);
/* made is called once, perhaps before this returns. Ends a start that is still under way. A host
 * with several addresses is tried at one after the other, one a start. */
void dial_start(struct dial *d);
void dial_cancel(struct dial *d);
