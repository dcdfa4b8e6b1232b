/*
 * Control: the cluster's state machine wired to its store, its policy, its nodes and the API.
 * One loop thread steps the cluster; one store thread commits. Requests that arrive while a commit
 * is under way share the next one.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "wire/config.h"

struct address;
struct event_base;
struct control;

struct control_options {
    const char *directory;        /* of the state */
    const char *api_socket;       /* unix socket of the API */
    const char *node_socket;      /* unix socket to which nodes connect */
    const struct address *listen; /* for the API and nodes over the network; NULL: on none */
    const struct config *config;
    const struct log *log;
};

/* Whether control_new would take this configuration: names of policies, and allowances. */
int control_check(struct error *e, const struct config *config);

/* Opens the store, rebuilds the cluster, listens. */
int control_new(struct error *e, struct event_base *base, const struct control_options *options,
                struct control **ret);
/* Where it listens on the network; 0: on none. */
uint16_t control_port(const struct control *c);
/* Commits what is pending, closes everything. */
void control_free(struct control *c);
