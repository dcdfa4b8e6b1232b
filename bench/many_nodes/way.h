/*
 * How the fleet's nodes reach control: by its unix socket, or over TLS, each with a certificate
 * of its own. Those are issued here, with the key of control's authority, since joining is not
 * what is measured.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"

struct bufferevent;
struct event_base;
struct way;

int way_new_unix(struct error *e, const char *path, struct way **ret);
/* url: https://ADDRESS:PORT, the address as numbers. state: control's state directory. Certificates for
 * nodes 0 … nodes - 1. */
int way_new_tls(struct error *e, const char *url, const char *state, size_t nodes,
                struct way **ret);
void way_free(struct way *w);

/* The name of node number `node`: what its certificate says. */
void way_node_name(size_t node, char *name, size_t size);
/* A stream that is connecting; BEV_EVENT_CONNECTED says that it is there. NULL: none can
 * be made. */
struct bufferevent *way_connect(struct way *w, struct event_base *base, size_t node);
