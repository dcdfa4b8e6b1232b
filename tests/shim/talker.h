/*
 * Programs with the shim preloaded that do what they are told, line by line. For tests by cmocka:
 * what fails here fails the test.
 */
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { PRELOAD_MAX = 8192 };

/* A program, and both ends of its pipes. */
struct talker {
    pid_t pid;
    FILE *to, *from;
};

/* What brings the shim into a program: a sanitizer's runtime that this one is linked with must be
 * the first library. */
void preload_shim(const char *shim, char ret_preload[PRELOAD_MAX]);
/* variables: a name and its value, and so on; NULL at the end. */
void start_talker(struct talker *ret_talker, const char *const *arguments,
                  const char *const *variables);
void tell(const struct talker *talker, const char *line);
int hear(const struct talker *talker);
/* Tells a line, and hears its answer. */
int ask(const struct talker *talker, const char *line);
