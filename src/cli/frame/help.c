#include "cli/frame/help.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/frame/options.h"
#include "cli/frame/output.h"

enum { WIDTH = 100, OPTION_COLUMN = 30, TEXT_MAX = 256 << 10 };

#define EXITS_OF_ALL                                                                               \
    "0  success\n1  failure; the reason is on standard error\n"                                    \
    "2  the command line is wrong\n"

static bool asks_daemon(const struct command *command)
{
    for (const struct option *o = command->options; o && o->name; o++)
        if (strcmp(o->name, "socket") == 0)
            return true;
    return false;
}

#define EXITS_OF_CLIENTS                                                                           \
    "3  the workload, node or device does not exist\n4  permission denied\n"                       \
    "5  gpumux cannot be reached: start it with 'gpumux up'\n"

static const char *next_line(const char *at)
{
    size_t length = strcspn(at, "\n");
    return at + length + (at[length] == '\n');
}

/* Returns the code at the start of a line; -1 for a letter, which stands for any code. */
static int exit_of(const char *line)
{
    return isdigit((unsigned char)*line) ? (int)strtol(line, NULL, 10) : -1;
}

/* Returns whether a line of the list has the same code or range as this line. */
static bool has_exit(const char *list, const char *line)
{
    size_t length = strcspn(line, " ") + 1;
    for (; *list; list = next_line(list))
        if (strncmp(list, line, length) == 0)
            return true;
    return false;
}

void help_exits(struct str *out, const struct command *command)
{
    const char *own = command && command->exits ? command->exits : "";
    const char *general =
        command && !asks_daemon(command) ? EXITS_OF_ALL : EXITS_OF_ALL EXITS_OF_CLIENTS;
    const char *lists[] = {own, general};
    int gap = *own ? 5 : 3;
    for (int code = -1; code <= UINT8_MAX; code++)
        for (size_t i = 0; i < 2; i++)
            for (const char *at = lists[i]; *at; at = next_line(at)) {
                size_t length = strcspn(at, " "), text = length + strspn(at + length, " ");
                if (exit_of(at) == code && (i == 0 || !has_exit(own, at)))
                    str_printf(out, "%-*.*s%.*s\n", gap, (int)length, at,
                               (int)strcspn(at + text, "\n"), at + text);
            }
}

/* Appends text, wrapped at WIDTH; every line but the first is indented. */
static void append_wrapped(struct str *out, const char *text, size_t indent)
{
    size_t column = indent;
    bool line_start = true;
    for (;; text++) {
        size_t length = strcspn(text, " \n");
        if (!line_start && column + 1 + length > WIDTH) {
            str_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!line_start) {
            str_append_char(out, ' ');
            column++;
        }
        str_append_bytes(out, text, length);
        column += length;
        line_start = length == 0 && line_start;
        text += length;
        if (!*text)
            return;
        if (*text == '\n') {
            str_printf(out, "\n%*s", text[1] != '\n' ? (int)indent : 0, "");
            column = indent;
            line_start = true;
        }
    }
}

static void append_option(struct str *out, const struct option *o)
{
    char left[128];
    (void)snprintf(left, sizeof left, "  %c%c%s--%s%s%s", o->letter ? '-' : ' ',
                   o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                   o->argument ? " " : "", o->argument ? o->argument : "");
    str_append(out, left);
    size_t column = output_width(left);
    if (column + 2 > OPTION_COLUMN) {
        str_append_char(out, '\n');
        column = 0;
    }
    str_printf(out, "%*s", (int)(OPTION_COLUMN - column), "");
    append_wrapped(out, o->help, OPTION_COLUMN);
    str_append_char(out, '\n');
}

void help_write_overview(struct str *out)
{
    str_append(out, "gpumux shares the GPUs of a machine among workloads.\n\n"
                    "Usage: gpumux COMMAND [OPTIONS]\n\nCommands:\n");
    for (const struct command *c = command_table(); c->name; c++)
        if (!c->hidden)
            str_printf(out, "  %-12s%s\n", c->name, c->summary);
    str_append(out, "\n"
                    "Start with 'gpumux up' (without a GPU: 'gpumux up --emulate 4'), then in "
                    "another terminal run\n"
                    "'gpumux run -- env'. 'gpumux COMMAND --help' explains a command.\n");
}

void help_write_command(struct str *out, const struct command *command)
{
    str_printf(out, "%c%s.\n\nUsage: gpumux %s%s%s%s\n\n",
               toupper((unsigned char)command->summary[0]), command->summary + 1, command->name,
               command->options && command->options->name ? " [OPTIONS]" : "",
               *command->operands ? " " : "", command->operands);
    append_wrapped(out, command->description, 0);
    str_append(out, "\n\nOptions:\n");
    for (const struct option *o = command->options; o && o->name; o++)
        append_option(out, o);
    append_option(out, option_help());
    if (command->examples) {
        str_append(out, "\nExamples:\n");
        for (const struct example *x = command->examples; x->command; x++)
            str_printf(out, "  %s\n      %s\n", x->command, x->what);
    }
    str_append(out, "\nExit codes:\n");
    struct str exits;
    str_init(&exits, TEXT_MAX);
    help_exits(&exits, command);
    for (const char *at = str_text(&exits); *at; at = next_line(at))
        str_printf(out, "  %.*s\n", (int)strcspn(at, "\n"), at);
    str_done(&exits);
}

static int print(struct str *out)
{
    bool ok = !str_failed(out) && fputs(str_text(out), stdout) >= 0;
    str_done(out);
    return ok ? COMMAND_OK : COMMAND_FAILED;
}

int help_unknown_command(const char *name)
{
    const char *nearest = command_nearest(name);
    if (nearest)
        fprintf(stderr, "gpumux: there is no command '%s', did you mean '%s'?\n", name, nearest);
    else
        fprintf(stderr, "gpumux: there is no command '%s'; 'gpumux help' lists them\n", name);
    return COMMAND_USAGE;
}

int help_print_command(const struct command *command)
{
    struct str out;
    str_init(&out, TEXT_MAX);
    help_write_command(&out, command);
    return print(&out);
}

int help_command(const struct invocation *in)
{
    if (in->operand_count == 0) {
        struct str out;
        str_init(&out, TEXT_MAX);
        help_write_overview(&out);
        return print(&out);
    }
    const struct command *command = command_find(in->operands[0]);
    return command ? help_print_command(command) : help_unknown_command(in->operands[0]);
}

/* Writes DIRECTORY/gpumux.1 or gpumux-COMMAND.1. */
static int write_page(const char *directory, const struct command *command)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/gpumux%s%s.1", directory, command ? "-" : "",
             command ? command->name : "");
    struct str out;
    str_init(&out, TEXT_MAX);
    help_write_man(&out, command);
    FILE *file = fopen(path, "we");
    bool ok = file && !str_failed(&out) && fputs(str_text(&out), file) >= 0;
    if (!file || fclose(file) != 0 || !ok) {
        perror(path);
        ok = false;
    }
    str_done(&out);
    return ok ? COMMAND_OK : COMMAND_FAILED;
}

int man_command(const struct invocation *in)
{
    const char *directory = option_value(in, "all");
    if (directory) {
        int status = write_page(directory, NULL);
        for (const struct command *c = command_table(); c->name && status == COMMAND_OK; c++)
            if (!c->hidden)
                status = write_page(directory, c);
        return status;
    }
    const struct command *command = NULL;
    if (in->operand_count == 1 && !(command = command_find(in->operands[0])))
        return help_unknown_command(in->operands[0]);
    struct str out;
    str_init(&out, TEXT_MAX);
    help_write_man(&out, command);
    return print(&out);
}

int completion_command(const struct invocation *in)
{
    struct str out;
    str_init(&out, TEXT_MAX);
    if (!help_write_completion(&out, in->operands[0])) {
        fprintf(stderr, "gpumux: completion: the shells are bash, zsh and fish, not '%s'\n",
                in->operands[0]);
        return COMMAND_USAGE;
    }
    return print(&out);
}
