/*
 * Commands: one table (commands.c) lists every command with its options. Parsing, --help, man pages
 * and completion are made from this table; nothing else describes an option.
 *
 * To add a command: one entry in commands.c, its function in a file of the room of its topic.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Exit codes of every command; `run` answers with its workload's own. */
enum command_exit {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1,
    COMMAND_USAGE = 2,
    COMMAND_NOT_FOUND = 3,
    COMMAND_DENIED = 4,
    COMMAND_UNREACHABLE = 5,
    COMMAND_NEVER = 6, /* submit --dry-run: it would never start here */
    COMMAND_TIMED_OUT = 124,
};

struct option {
    const char *name;     /* the long form, without dashes; NULL ends a list */
    char letter;          /* the short form; 0: none */
    const char *argument; /* what its argument is called, "a|b" for a choice; NULL: takes none */
    const char *help;
    const char *spec_key; /* of submit and run: the key of the description that it sets, or NULL */
};

struct example {
    const char *command, *what; /* command NULL ends a list */
};

struct invocation;

struct command {
    const char *name;
    const char *operands; /* as in a usage line; "" when it takes none */
    const char *summary;  /* one line, without a full stop */
    const char *description;
    const struct option *options;
    const struct example *examples;
    const char *exits;     /* what differs from the exit codes that all commands share, or NULL */
    const char *completes; /* what its operands are, for completion: "ids", "nodes", "files",
                              "commands", or words; NULL: nothing */
    bool stops_at_operand; /* what follows the first operand belongs to that, options too */
    bool hidden;           /* works, but is not listed */
    size_t operands_least, operands_most;
    int (*run)(const struct invocation *in);
};

enum { COMMAND_OPERANDS_ANY = 1 << 20 };

/* All of them, in the order of the help text; ended by one with name NULL. */
const struct command *command_table(void);
/* NULL: there is no such command. */
const struct command *command_find(const char *name);
/* The nearest command's name to a mistyped one, or NULL. */
const char *command_nearest(const char *name);
