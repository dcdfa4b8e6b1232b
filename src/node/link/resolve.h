/*
 * Looks a host up without stopping the loop. The system's resolver knows all that the machine is
 * told about names, and waits; so it does that in a thread of its own, which nobody has to wait
 * for.
 */
#pragma once
#include "base/error.h"

struct addrinfo;
struct event_base;
struct resolve;

/* failed: 0, or what getaddrinfo said. The addresses are the receiver's, for freeaddrinfo. */
typedef void (*resolve_done)(void *arg, int failed, struct addrinfo *addresses);

/* done is called once, from the loop, and the resolve is gone then; unless it is cancelled. */
int resolve_start(struct error *e, struct event_base *base, const char *host, const char *port,
                  resolve_done done, void *arg, struct resolve **ret);
void resolve_cancel(struct resolve *r);
