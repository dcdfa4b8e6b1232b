/*
 * The programs behind the proxy: ports on the loopback address. The supervisor replaces the list
 * while connections are open; a connection to a program that left the list drains.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BACKENDS_MAX = 16 };

/* The order of the supervisor that replaces the list: "backends PORT PORT…". */
#define BACKENDS_WORD "backends"

struct backend {
    int port;
    uint32_t connections; /* open connections of the proxy to the port */
};

struct backends {
    size_t count;
    struct backend items[BACKENDS_MAX];
    uint32_t generation; /* changes with the list */
    size_t next;         /* where the search for an equal begins, so that equals take turns */
};

/* Parses an order. Returns false, without a change, for anything else. */
bool backends_parse(struct backends *b, const char *order);
/* Chooses the program for a new connection: the one with the fewest connections. Returns its port,
 * or 0 if the list is empty. */
int backends_choose(struct backends *b);
/* Returns whether the list contains the port. */
bool backends_has(const struct backends *b, int port);
/* Count the connections of a port; a port outside the list is ignored. */
void backends_opened(struct backends *b, int port);
void backends_closed(struct backends *b, int port);
