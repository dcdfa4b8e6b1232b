/*
 * Commands: one table (commands.c) lists every command with its options. Parsing, --help, man pages
 * and completion use this table; no other place describes an option.
 *
 * A new command is one entry in commands.c, and a function in a file in the folder of its topic.
 *
 * This folder contains the executable, with a folder for each topic. Files of the folder cli may
 * include base, model, wire, tls.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Exit codes of every command; `run` exits with its workload's own exit code. */
enum command_exit {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1,
    COMMAND_USAGE = 2,
    COMMAND_NOT_FOUND = 3,
    COMMAND_DENIED = 4,
    COMMAND_UNREACHABLE = 5,
    COMMAND_NEVER = 6, /* submit --dry-run: the workload can never start */
    COMMAND_TIMED_OUT = 124,
};

struct option {
    const char *name;     /* long form without dashes; NULL ends a list */
    char letter;          /* short form; 0: none */
    const char *argument; /* name of the argument, "a|b" for a choice; NULL: no argument */
    const char *help;
    /* key of the description that an option of submit or run sets; NULL: none */
    const char *spec_key;
};

struct example {
    const char *command, *what; /* command NULL ends a list */
};

struct invocation;

struct command {
    const char *name;
    const char *operands; /* operands as in a usage line; "" if the command takes none */
    const char *summary;  /* one line without a full stop */
    const char *description;
    const struct option *options;
    const struct example *examples;
    const char *exits; /* exit codes that differ from the common ones; NULL: none */
    /* kind of operands, for completion: "ids", "nodes", "files", "commands", or words; NULL:
     * none */
    const char *completes;
    /* the first operand ends the options; everything after it is an operand */
    bool stops_at_operand;
    bool hidden; /* the command works, but help does not list the command */
    size_t operands_least, operands_most;
    int (*run)(const struct invocation *in);
};

enum { COMMAND_OPERANDS_ANY = 1 << 20 };

/* Returns all commands in the order of the help text; the name of the last entry is NULL. */
const struct command *command_table(void);
/* Returns the command of that name, or NULL. */
const struct command *command_find(const char *name);
/* Returns the name of the command nearest to a mistyped name, or NULL. */
const char *command_nearest(const char *name);
