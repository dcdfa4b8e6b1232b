/* Concurrent submits over the API. Each has a connection to itself while it is in flight and then
 * leaves the connection to the next. */
#pragma once
#include <stddef.h>

struct event_base;
struct submits;

/* number: as passed to submits_send(). status: of the response; 0: none arrived. */
typedef void (*submits_answered)(void *arg, size_t number, int status);

/* socket: of the API; must outlive the result. Returns NULL if out of memory. */
struct submits *submits_new(struct event_base *base, const char *socket, submits_answered answered,
                            void *arg);
void submits_free(struct submits *s);
/* POSTs a workload. Returns 0, or -1 if too many are in flight or no connection can be made. */
int submits_send(struct submits *s, size_t number, const char *body);
