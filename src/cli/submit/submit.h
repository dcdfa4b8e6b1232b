/*
 * The folder submit contains the commands submit and run. Both commands make a description from a
 * file, options and environment (draft.h).
 *
 * Files of the folder cli/submit may include base, model, wire, abi, cli/frame, cli/connect.
 */
#pragma once
#include "cli/connect/client.h"

struct submit_request {
    const char *file; /* path; "-": standard input; NULL: only the command line */
    const char *key;  /* idempotency key; NULL: a new key */
    bool wants_stdin; /* `run` will send input */
    bool dry_run;
};

/*
 * Makes the description from the command line, and submits the description under an idempotency
 * key. If gpumux restarts and the response is lost, the client repeats the request, and gpumux
 * still accepts the request only once. The caller owns the response *ret. On failure prints the
 * error. Returns an exit code.
 */
int submit_send(struct client *c, const struct submit_request *request, json_t **ret);

int submit_command(const struct invocation *in);
int run_command(const struct invocation *in);
