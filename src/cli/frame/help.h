/* What is made from the table of commands: help texts, man pages, completion scripts. */
#pragma once
#include "base/str.h"
#include "cli/command.h"

/* `gpumux help`: every command with its summary. */
void help_write_overview(struct str *out);
/* `gpumux COMMAND --help` */
void help_write_command(struct str *out, const struct command *command);
/* A man page in man(7); NULL: gpumux(1) itself. */
void help_write_man(struct str *out, const struct command *command);
/* Completion for "bash", "zsh" or "fish"; false: another shell. */
bool help_write_completion(struct str *out, const char *shell);

/* The exit codes that a command shares with others, one a line: "0 success"; fewer of one that asks
 * no daemon. NULL: all of them. */
const char *help_exits(const struct command *command);

/* Say it on standard output, or that there is no such command; the answer is the exit code. */
int help_print_command(const struct command *command);
int help_unknown_command(const char *name);

int help_command(const struct invocation *in);
int version_command(const struct invocation *in);
int man_command(const struct invocation *in);
int completion_command(const struct invocation *in);
