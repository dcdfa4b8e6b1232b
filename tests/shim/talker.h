/*
 * For cmocka tests: programs with the shim preloaded that follow commands, one per line. A failure
 * here fails the test.
 */
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { PRELOAD_MAX = 8192 };

/* A program, and this process's ends of its pipes. */
struct talker {
    pid_t pid;
    FILE *to, *from;
};

/* Builds the value of LD_PRELOAD for the shim: the runtime of a sanitizer that this program is
 * linked with must come first. */
void preload_shim(const char *shim, char ret_preload[PRELOAD_MAX]);
/* variables: names and values in turn, then NULL. */
void start_talker(struct talker *ret_talker, const char *const *arguments,
                  const char *const *variables);
void tell(const struct talker *talker, const char *line);
int hear(const struct talker *talker);
/* Sends a line and returns the answer. */
int ask(const struct talker *talker, const char *line);
