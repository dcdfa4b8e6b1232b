/*
 * The room submit: the commands submit and run, and the description that they make of a file,
 * options and environment (draft.h). Uses connect, frame and the parser of descriptions.
 */
#pragma once
#include "cli/connect/client.h"

struct submit_request {
    const char *file; /* "-": standard input; NULL: the command line says everything */
    const char *key;  /* NULL: one is made */
    bool wants_stdin; /* `run` will send input */
    bool dry_run;
};

/*
 * Makes the description that the command line asks for and submits it, under a key of its own: when
 * the answer is lost because gpumux restarts, it is sent again and still taken once.
 * *ret is the answer, owned by the caller. On failure it has been said; the answer is an exit code.
 */
int submit_send(struct client *c, const struct submit_request *request, json_t **ret);

int submit_command(const struct invocation *in);
int run_command(const struct invocation *in);
