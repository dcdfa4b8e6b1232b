/*
 * Connections of the fleet's nodes to control: over its unix socket, or over TLS with a certificate
 * for each node. The certificates are issued here with the key of control's authority, because
 * joining is not measured.
 */
#pragma once
#include <stddef.h>

#include "base/error.h"

struct bufferevent;
struct event_base;
struct way;

int way_new_unix(struct error *e, const char *path, struct way **ret);
/* url: https://ADDRESS:PORT with a numeric address. state: control's state directory. Issues
 * certificates for nodes 0 … nodes - 1. */
int way_new_tls(struct error *e, const char *url, const char *state, size_t nodes,
                struct way **ret);
void way_free(struct way *w);

/* Writes the name of node number `node`, as in its certificate. */
void way_node_name(size_t node, char *name, size_t size);
/* Returns a stream that connects; BEV_EVENT_CONNECTED follows. Returns NULL on failure. */
struct bufferevent *way_connect(struct way *w, struct event_base *base, size_t node);
