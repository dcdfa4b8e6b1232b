/* Completion scripts for shells, from the table of commands. */
#include <string.h>

#include "cli/help.h"
#include "cli/options.h"

/* The commands of the shell that list what operands can be. */
static const char *const ids_command = "gpumux ps -q 2>/dev/null";
static const char *const nodes_command = "gpumux nodes -q 2>/dev/null";

static bool is_choice(const char *argument)
{
    return argument && strchr(argument, '|') && !strpbrk(argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

/* "a|b|c" → "a b c" */
static void append_choice(struct str *out, const char *choices)
{
    for (; *choices; choices++)
        str_append_char(out, *choices == '|' ? ' ' : *choices);
}

static void bash_options(struct str *out, const struct command *c)
{
    for (const struct option *o = c->options; o && o->name; o++)
        str_printf(out, "--%s ", o->name);
    str_append(out, "--help");
}

static void bash_operands(struct str *out, const struct command *c)
{
    if (!c->completes)
        str_append(out, "        :\n");
    else if (strcmp(c->completes, "files") == 0)
        str_append(out, "        COMPREPLY=($(compgen -f -- \"$cur\"))\n");
    else if (strcmp(c->completes, "ids") == 0)
        str_printf(out, "        COMPREPLY=($(compgen -W \"$(%s)\" -- \"$cur\"))\n", ids_command);
    else if (strcmp(c->completes, "nodes") == 0)
        str_printf(out, "        COMPREPLY=($(compgen -W \"$(%s)\" -- \"$cur\"))\n", nodes_command);
    else
        str_printf(out, "        COMPREPLY=($(compgen -W \"%s\" -- \"$cur\"))\n", c->completes);
}

static void write_bash(struct str *out)
{
    str_append(out, "# bash completion for gpumux\n_gpumux() {\n"
                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                    "    COMPREPLY=()\n"
                    "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    for (const struct command *c = command_table(); c->name; c++)
        if (!c->hidden)
            str_printf(out, "%s ", c->name);
    str_append(out, "\" -- \"$cur\"))\n        return\n    fi\n"
                    "    case ${COMP_WORDS[1]}:$prev in\n");
    for (const struct command *c = command_table(); c->name; c++)
        for (const struct option *o = c->options; !c->hidden && o && o->name; o++) {
            if (!o->argument)
                continue;
            str_printf(out, "    %s:--%s", c->name, o->name);
            if (o->letter)
                str_printf(out, " | %s:-%c", c->name, o->letter);
            str_append(out, ")\n        COMPREPLY=($(compgen ");
            if (is_choice(o->argument)) {
                str_append(out, "-W \"");
                append_choice(out, o->argument);
                str_append(out, "\"");
            } else {
                str_append(out, "-f");
            }
            str_append(out, " -- \"$cur\"))\n        return ;;\n");
        }
    str_append(out, "    esac\n    case ${COMP_WORDS[1]}:$cur in\n");
    for (const struct command *c = command_table(); c->name; c++) {
        if (c->hidden)
            continue;
        str_printf(out, "    %s:-*) COMPREPLY=($(compgen -W \"", c->name);
        bash_options(out, c);
        str_printf(out, "\" -- \"$cur\")) ;;\n    %s:*)\n", c->name);
        bash_operands(out, c);
        str_append(out, "        ;;\n");
    }
    str_append(out, "    esac\n}\ncomplete -F _gpumux gpumux\n");
}

/* Text inside single quotes of zsh's _arguments and of fish: quotes and brackets are in the way. */
static void append_quoted(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            str_append(out, "'\\''");
        else if (strchr("[]:\\", *text))
            str_printf(out, "\\%c", *text);
        else
            str_append_char(out, *text);
    }
}

static void zsh_operands(struct str *out, const struct command *c)
{
    if (!c->completes)
        return;
    if (strcmp(c->completes, "files") == 0)
        str_append(out, " '*:file:_files'");
    else if (strcmp(c->completes, "ids") == 0)
        str_printf(out, " '*:workload:(${(f)\"$(%s)\"})'", ids_command);
    else if (strcmp(c->completes, "nodes") == 0)
        str_printf(out, " '*:node:(${(f)\"$(%s)\"})'", nodes_command);
    else
        str_printf(out, " '*: :(%s)'", c->completes);
}

static void zsh_option(struct str *out, const struct option *o)
{
    str_printf(out, " \\\n            '*--%s%s[", o->name, o->argument ? "=" : "");
    append_quoted(out, o->help);
    str_append(out, "]");
    if (is_choice(o->argument)) {
        str_append(out, ": :(");
        append_choice(out, o->argument);
        str_append(out, ")");
    } else if (o->argument) {
        str_append(out, ":");
        append_quoted(out, o->argument);
        str_append(out, ":_files");
    }
    str_append(out, "'");
}

static void write_zsh(struct str *out)
{
    str_append(out, "#compdef gpumux\n_gpumux() {\n    local -a commands\n    commands=(\n");
    for (const struct command *c = command_table(); c->name; c++) {
        if (c->hidden)
            continue;
        str_printf(out, "        '%s:", c->name);
        append_quoted(out, c->summary);
        str_append(out, "'\n");
    }
    str_append(out, "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
                    "        return\n    fi\n    local chosen=$words[2]\n    shift words\n"
                    "    (( CURRENT-- ))\n    case $chosen in\n");
    for (const struct command *c = command_table(); c->name; c++) {
        if (c->hidden)
            continue;
        str_printf(out, "    %s)\n        _arguments", c->name);
        for (const struct option *o = c->options; o && o->name; o++)
            zsh_option(out, o);
        zsh_option(out, option_help());
        zsh_operands(out, c);
        str_append(out, " ;;\n");
    }
    str_append(out, "    esac\n}\n_gpumux \"$@\"\n");
}

static void fish_option(struct str *out, const char *command, const struct option *o)
{
    str_printf(out, "complete -c gpumux -n '__fish_seen_subcommand_from %s' -l %s", command,
               o->name);
    if (o->letter)
        str_printf(out, " -s %c", o->letter);
    if (is_choice(o->argument)) {
        str_append(out, " -x -a '");
        append_choice(out, o->argument);
        str_append(out, "'");
    } else if (o->argument) {
        str_append(out, " -r");
    }
    str_append(out, " -d '");
    append_quoted(out, o->help);
    str_append(out, "'\n");
}

static void write_fish(struct str *out)
{
    str_append(out, "# fish completion for gpumux\n");
    for (const struct command *c = command_table(); c->name; c++) {
        if (c->hidden)
            continue;
        str_printf(out, "complete -c gpumux -n __fish_use_subcommand -f -a %s -d '", c->name);
        append_quoted(out, c->summary);
        str_append(out, "'\n");
        for (const struct option *o = c->options; o && o->name; o++)
            fish_option(out, c->name, o);
        if (!c->completes || strcmp(c->completes, "files") == 0)
            continue;
        const char *words = c->completes;
        bool lists = strcmp(words, "ids") == 0 || strcmp(words, "nodes") == 0;
        str_printf(out, "complete -c gpumux -n '__fish_seen_subcommand_from %s' -f -a '%s%s%s'\n",
                   c->name, lists ? "(" : "",
                   !lists                      ? words
                   : strcmp(words, "ids") == 0 ? ids_command
                                               : nodes_command,
                   lists ? ")" : "");
    }
}

bool help_write_completion(struct str *out, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        write_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        write_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        write_fish(out);
    else
        return false;
    return true;
}
