/*
 * Resolves a host name without blocking the loop: getaddrinfo runs in a thread of its own, which
 * can be abandoned.
 */
#pragma once
#include "base/error.h"

struct addrinfo;
struct event_base;
struct resolve;

/* failed: 0 or getaddrinfo's error. The receiver frees the addresses by freeaddrinfo. */
typedef void (*resolve_done)(void *arg, int failed, struct addrinfo *addresses);

/* Calls `done` once, from the loop, unless it is cancelled. *ret is freed before that call. */
int resolve_start(struct error *e, struct event_base *base, const char *host, const char *port,
                  resolve_done done, void *arg, struct resolve **ret);
void resolve_cancel(struct resolve *r);
