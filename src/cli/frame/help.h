/* Texts made from the table of commands: help, man pages, completion scripts. */
#pragma once
#include "base/str.h"
#include "cli/command.h"

/* Writes `gpumux help`: every command with its summary. */
void help_write_overview(struct str *out);
/* Writes `gpumux COMMAND --help`. */
void help_write_command(struct str *out, const struct command *command);
/* Writes a man page in man(7); NULL: gpumux(1) itself. */
void help_write_man(struct str *out, const struct command *command);
/* Writes completion for "bash", "zsh" or "fish". Returns false for another shell. */
bool help_write_completion(struct str *out, const char *shell);

/* Appends the exit codes of a command, lowest first, one per line: "0  success". A meaning that the
 * command defines replaces the general meaning of the code. A command that contacts no daemon has
 * fewer general codes. NULL: all general codes. */
void help_exits(struct str *out, const struct command *command);

/* Print help, or the error about an unknown command. Return the exit code. */
int help_print_command(const struct command *command);
int help_unknown_command(const char *name);

int help_command(const struct invocation *in);
int version_command(const struct invocation *in);
int man_command(const struct invocation *in);
int completion_command(const struct invocation *in);
