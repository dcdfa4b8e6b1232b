/*
 * The description that submit and run send: a description from a file, options that override it,
 * and the submitter's own directory and environment for keys that are not given.
 *
 * --export all (the default) passes every variable of the environment except variables of the shell
 * (PWD, OLDPWD, SHLVL, _), variables that gpumux sets itself (CUDA_VISIBLE_DEVICES, GPUMUX_* other
 * than GPUMUX_SOCKET) and values that are not UTF-8. --export none passes PATH, HOME, USER,
 * LOGNAME, SHELL and LANG; --export A,B passes these six, A and B. Variables of the description or
 * of --env take precedence.
 */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "cli/frame/options.h"
#include "model/workload.h"

struct draft {
    size_t count;
    struct workload_spec *specs; /* in the arena, validated */
};

/*
 * Makes the descriptions of a command line. `file` is the text of the file; NULL: no file, and
 * in->rest is the command. Options that set a key are allowed only with a file of one workload.
 */
int draft_make(struct error *e, struct arena *arena, const struct invocation *in, const char *file,
               size_t length, struct draft *ret);
/* Writes the document to send. */
int draft_write(struct error *e, const struct draft *draft, struct str *out);
/* Reads a whole file, at most SPEC_TEXT_MAX bytes; "-" is standard input. Returns 0, an error, or
 * -ERR_NOT_FOUND if the file does not exist. */
int draft_read_file(struct error *e, const char *path, struct str *out);
