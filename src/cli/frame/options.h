/*
 * The room frame: command line in, text out: options, help, man pages, completion, tables, YAML.
 * Uses the table of commands, but no connection to gpumux.
 *
 * The option parser: a command's options in the forms --name value, --name=value, -x value,
 * -xvalue, -xyz for flags; `--` ends them. Driven by the table of commands.
 */
#pragma once
#include "base/arena.h"
#include "cli/command.h"

struct option_given {
    const struct option *option;
    const char *value; /* NULL for a flag */
};

/* One parsed command line. Points into argv and the arena. */
struct invocation {
    const struct command *command;
    size_t given_count;
    struct option_given *given; /* in the order of the command line */
    size_t operand_count;
    char **operands;
    size_t rest_count; /* after `--`; with stops_at_operand: from the first operand on */
    char **rest;       /* NULL-ended */
    bool wants_help;   /* --help or -h was there: nothing else has been checked */
};

/*
 * args: what follows the command's name. Operands are counted, options must be known, have their
 * argument, and choices must be one of them; -ERR_INVALID says what is wrong, with a hint.
 */
int options_parse(struct error *e, struct arena *arena, const struct command *command, int count,
                  char **args, struct invocation *ret);

/* The last value given for a name that the command's table has; NULL: not given. */
const char *option_value(const struct invocation *in, const char *name);
/* Given, with or without an argument. */
bool option_given(const struct invocation *in, const char *name);
/* The first of the names (ended by NULL) that is given, or NULL. */
const char *option_given_of(const struct invocation *in, const char *const *names);
/* -h, --help: every command takes it. */
const struct option *option_help(void);
