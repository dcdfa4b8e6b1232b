/*
 * Control: connects the cluster's state machine with its store, its policy, its nodes and the API.
 * One loop thread steps the cluster; one store thread commits. Requests that arrive during a commit
 * share the next commit.
 *
 * This folder contains the daemon of the cluster, and the routes of the API. Files of the folder
 * control may include base, model, wire, tls, cluster, policy, learn, endpoint, store.
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
    const char *directory;        /* state directory */
    const char *api_socket;       /* path of the API's unix socket */
    const char *node_socket;      /* path of the unix socket to which nodes connect */
    const struct address *listen; /* network address for the API and nodes; NULL: none */
    const struct config *config;
    const struct log *log;
};

/* Checks whether control_new() would accept this configuration: names of policies, and
 * allowances. */
int control_check(struct error *e, const struct config *config);

/* Opens the store, rebuilds the cluster, and listens. */
int control_new(struct error *e, struct event_base *base, const struct control_options *options,
                struct control **ret);
/* Returns the port on the network; 0: no network. */
uint16_t control_port(const struct control *c);
/* Commits pending changes and closes everything. */
void control_free(struct control *c);
