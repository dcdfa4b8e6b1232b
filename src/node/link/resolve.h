/*
 * Resolves a host name without blocking the loop: getaddrinfo() runs in a thread of its own, which
 * can be abandoned.
 */
#pragma once
#include "base/error.h"

struct addrinfo;
struct event_base;
struct resolve;

/* Receives the result: `failed` is 0 or getaddrinfo()'s error. The receiver frees the addresses
 * with freeaddrinfo(). */
typedef void (*resolve_done)(void *arg, int failed, struct addrinfo *addresses);

/* Starts resolving. Unless the caller cancels, the loop frees *ret and calls `done` once. */
int resolve_start(struct error *e, struct event_base *base, const char *host, const char *port,
                  resolve_done done, void *arg, struct resolve **ret);
void resolve_cancel(struct resolve *r);
