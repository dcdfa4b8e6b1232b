/*
 * Joins a cluster over the network: the node makes a key, exchanges a one-time token for a
 * certificate, and stores both (credentials.h). The node recognises control by the fingerprint of
 * the authority, which the administrator passes on with the token.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "model/node.h"
#include "tls/fingerprint.h"

struct address;

struct join_options {
    const char *directory; /* state directory of the node; made if missing */
    const struct address *control;
    struct fingerprint ca;
    const char *token;
    const char *name; /* requested name; "": the host's name */
    int64_t timeout_ms;
};

/*
 * Joins the cluster. *ret_name is the name in the certificate. *ret_before: the node had joined
 * before (same authority, same name, a valid certificate), and did not use the token. Returns 0,
 * -ERR_DENIED (token, name or control's certificate refused), -ERR_UNAVAILABLE or -ERR_TIMEOUT.
 */
int join_cluster(struct error *e, const struct join_options *options, char ret_name[NODE_NAME_MAX],
                 bool *ret_before);
