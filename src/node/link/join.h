/*
 * Joins a cluster over the network: the node makes a key, exchanges a one-time token for a
 * certificate, and stores both (credentials.h). It recognises control by the fingerprint of the
 * authority, which comes with the token.
 */
#pragma once
#include <stdbool.h>

#include "base/error.h"
#include "model/node.h"
#include "tls/fingerprint.h"

struct address;

struct join_options {
    const char *directory; /* the node's state; made if missing */
    const struct address *control;
    struct fingerprint ca;
    const char *token;
    const char *name; /* wanted name; "": the host's */
    int64_t timeout_ms;
};

/*
 * *ret_name: the name in the certificate. *ret_before: the node had joined before (same authority,
 * same name, a valid certificate); the token was not used. -ERR_DENIED: token, name or control's
 * certificate was refused; -ERR_UNAVAILABLE, -ERR_TIMEOUT: control does not answer.
 */
int join_cluster(struct error *e, const struct join_options *options, char ret_name[NODE_NAME_MAX],
                 bool *ret_before);
