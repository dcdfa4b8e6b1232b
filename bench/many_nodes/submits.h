/* Submits over the API that do not wait for each other: each has a connection to itself while it is
 * under way, and leaves it to the next. */
#pragma once
#include <stddef.h>

struct event_base;
struct submits;

/* number: as given to submits_send. status: of the answer; 0: none came. */
typedef void (*submits_answered)(void *arg, size_t number, int status);

/* socket: of the API; must outlive it. NULL: out of memory. */
struct submits *submits_new(struct event_base *base, const char *socket, submits_answered answered,
                            void *arg);
void submits_free(struct submits *s);
/* POSTs a workload. 0 or -1: too many are under way, or no connection can be made. */
int submits_send(struct submits *s, size_t number, const char *body);
