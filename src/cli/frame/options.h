/*
 * The folder frame contains the parser of the command line, and the output: help, man pages,
 * completion, tables, YAML. The folder uses the table of commands, but no connection to gpumux.
 *
 * The option parser accepts --name value, --name=value, -x value, -xvalue, and -xyz for flags; `--`
 * ends the options. The table of commands lists the options of each command.
 *
 * Files of the folder cli/frame may include base, model, policy, cli.
 */
#pragma once
#include "base/arena.h"
#include "cli/command.h"

struct option_given {
    const struct option *option;
    const char *value; /* NULL for a flag */
};

/* One parsed command line, which points into argv and the arena. */
struct invocation {
    const struct command *command;
    size_t given_count;
    struct option_given *given; /* in the order of the command line */
    size_t operand_count;
    char **operands;
    /* number of words after `--`; with stops_at_operand, number of words from the first operand
     * on */
    size_t rest_count;
    char **rest;     /* NULL-terminated */
    bool wants_help; /* --help or -h was given; nothing else has been checked */
};

/*
 * Parses args, the words after the command's name. Checks the number of operands, the options and
 * their arguments, and choices. Returns 0, or -ERR_INVALID with the fault and a hint.
 */
int options_parse(struct error *e, struct arena *arena, const struct command *command, int count,
                  char **args, struct invocation *ret);

/* Returns the last value of an option in the command's table; NULL: not given. */
const char *option_value(const struct invocation *in, const char *name);
/* Returns whether the option was given, with or without an argument. */
bool option_given(const struct invocation *in, const char *name);
/* Returns the first of the names (ended by NULL) that was given, or NULL. */
const char *option_given_of(const struct invocation *in, const char *const *names);
/* Returns the option -h, --help of every command. */
const struct option *option_help(void);
