/*
 * Joining a cluster over the network, once: a node makes its key, has it certified in exchange for
 * a one-time token, and keeps what it needs to be let in from then on (credentials.h). It knows
 * control by the fingerprint of its authority, which came with the token.
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
    const char *name; /* that was asked for; "": the host's */
    int64_t timeout_ms;
};

/*
 * *ret_name: as whom. *ret_before: it had joined before (the same authority, the name that was
 * asked for if any, a certificate that still holds): nothing was done, and the token was not used.
 * -ERR_DENIED: the token, the name or control's certificate is not good; -ERR_UNAVAILABLE,
 * -ERR_TIMEOUT: control does not answer.
 */
int join_cluster(struct error *e, const struct join_options *options, char ret_name[NODE_NAME_MAX],
                 bool *ret_before);
