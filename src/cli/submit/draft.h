/*
 * What submit and run send: a description from a file, flags put over it, and the submitter's own
 * directory and environment where it says nothing.
 *
 * Of the environment, --export all (the default) takes everything but what belongs to the shell
 * (PWD, OLDPWD, SHLVL, _), what gpumux sets itself (CUDA_VISIBLE_DEVICES, GPUMUX_* other than
 * GPUMUX_SOCKET) and what is not UTF-8; --export none takes PATH, HOME, USER, LOGNAME, SHELL, LANG;
 * --export A,B takes these besides A and B. Variables that the description or --env names win.
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
 * file: its text, or NULL when there is none and the command (in->rest) is all. Flags that set a
 * key of the description are for a file of one workload.
 */
int draft_make(struct error *e, struct arena *arena, const struct invocation *in, const char *file,
               size_t length, struct draft *ret);
/* The document to be sent. */
int draft_write(struct error *e, const struct draft *draft, struct str *out);
/* Reads a whole file, "-" is standard input; at most SPEC_TEXT_MAX bytes. -ERR_NOT_FOUND: there is
 * none such. */
int draft_read_file(struct error *e, const char *path, struct str *out);
