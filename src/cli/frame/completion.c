/* Completion scripts for shells, from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "cli/frame/help.h"
#include "cli/frame/options.h"
#include "model/workload.h"
#include "policy/policy.h"

enum { VALUES_MAX = 4096 };

/* Shell commands that list the possible operands. */
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

/* `gpumux sim` accepts several policies, and alone those that need the truth. */
static void append_policies(struct str *out, bool is_sim)
{
    for (size_t i = 0; policy_at(i); i++)
        if (is_sim || !policy_at(i)->needs_truth)
            str_printf(out, "%s%s", i ? " " : "", policy_at(i)->name);
}

/* Appends the possible arguments of an option, separated by spaces. Returns false if unknown. */
static bool append_values(struct str *out, const char *argument)
{
    if (is_choice(argument))
        append_choice(out, argument);
    else if (str_starts_with(argument, "STATE,"))
        for (unsigned i = 0; i < WORKLOAD_STATE_END; i++)
            str_printf(out, "%s%s", i ? " " : "", workload_state_name((enum workload_state)i));
    else if (str_starts_with(argument, "POLICY"))
        append_policies(out, str_starts_with(argument, "POLICY,"));
    else
        return false;
    return true;
}

static bool is_workload(const char *argument)
{
    return argument && str_starts_with(argument, "WORKLOAD");
}

static void append_commands(struct str *out)
{
    const char *space = "";
    for (const struct command *c = command_table(); c->name; c++)
        if (!c->hidden) {
            str_printf(out, "%s%s", space, c->name);
            space = " ";
        }
}

static void bash_options(struct str *out, const struct command *c)
{
    for (const struct option *o = c->options; o && o->name; o++)
        str_printf(out, "--%s ", o->name);
    str_append(out, "--help");
}

/* Without a reply the shell completes files, because the shell can quote file names. */
static void bash_operands(struct str *out, const struct command *c)
{
    if (!c->completes || strcmp(c->completes, "files") == 0) {
        str_append(out, "        :\n");
        return;
    }
    str_append(out, "        COMPREPLY=($(compgen -W \"");
    if (strcmp(c->completes, "ids") == 0)
        str_printf(out, "$(%s)", ids_command);
    else if (strcmp(c->completes, "nodes") == 0)
        str_printf(out, "$(%s)", nodes_command);
    else if (strcmp(c->completes, "commands") == 0)
        append_commands(out);
    else
        str_append(out, c->completes);
    str_append(out, "\" -- \"$cur\"))\n");
}

static void bash_value(struct str *out, const struct option *o)
{
    struct str values;
    str_init(&values, VALUES_MAX);
    if (is_workload(o->argument))
        str_printf(&values, "$(%s)", ids_command);
    /* In a list, only the last word is completed. */
    bool is_list = strchr(o->argument, ',') != NULL;
    if (append_values(&values, o->argument) || values.length > 0)
        str_printf(out, "        COMPREPLY=($(compgen%s -W \"%s\" -- \"%s\"))\n",
                   is_list ? " -P \"${cur%\"${cur##*,}\"}\"" : "", str_text(&values),
                   is_list ? "${cur##*,}" : "$cur");
    str_append(out, "        return ;;\n");
    str_done(&values);
}

static void bash_names(struct str *out, const char *prefix, const struct option *o)
{
    str_printf(out, "%s--%s", prefix, o->name);
    if (o->letter)
        str_printf(out, " | %s-%c", prefix, o->letter);
}

/* Writes code that stops after the first operand, because the rest belongs to another command. */
static void bash_stop(struct str *out, const struct command *c)
{
    str_printf(out,
               "    if [ \"${COMP_WORDS[1]}\" = %s ]; then\n"
               "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
               "            case ${COMP_WORDS[i]} in\n            ",
               c->name);
    const char *bar = "";
    for (const struct option *o = c->options; o && o->name; o++)
        if (o->argument) {
            str_append(out, bar);
            bash_names(out, "", o);
            bar = " | ";
        }
    /* bash splits words at '='. */
    str_append(out, ")\n                ((i++)); [ \"${COMP_WORDS[i]}\" != = ] || ((i++)) ;;\n"
                    "            =) ((i++)) ;;\n            -*) ;;\n            *) return ;;\n"
                    "            esac\n        done\n    fi\n");
}

static void write_bash(struct str *out)
{
    str_append(out, "# bash completion for gpumux\n_gpumux() {\n"
                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i\n"
                    "    COMPREPLY=()\n"
                    "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W \"");
    append_commands(out);
    str_append(out, "\" -- \"$cur\"))\n        return\n    fi\n"
                    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                    "        [ \"${COMP_WORDS[i]}\" != -- ] || return\n    done\n"
                    "    [ \"$prev\" != = ] || prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                    "    [ \"$cur\" != = ] || cur=\n");
    for (const struct command *c = command_table(); c->name; c++)
        if (c->stops_at_operand && !c->hidden)
            bash_stop(out, c);
    str_append(out, "    case ${COMP_WORDS[1]}:$prev in\n");
    for (const struct command *c = command_table(); c->name; c++)
        for (const struct option *o = c->options; !c->hidden && o && o->name; o++) {
            char prefix[64];
            if (!o->argument)
                continue;
            snprintf(prefix, sizeof prefix, "%s:", c->name);
            str_append(out, "    ");
            bash_names(out, prefix, o);
            str_append(out, ")\n");
            bash_value(out, o);
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
    str_append(out, "    esac\n}\ncomplete -o default -F _gpumux gpumux\n");
}

/* Appends text for single quotes in zsh's _arguments and in fish, with quotes and brackets
 * escaped. */
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
    else if (strcmp(c->completes, "commands") == 0) {
        str_append(out, " '*: :(");
        append_commands(out);
        str_append(out, ")'");
    } else
        str_printf(out, " '*: :(%s)'", c->completes);
}

static void zsh_option(struct str *out, const struct option *o)
{
    str_printf(out, " \\\n            '*--%s%s[", o->name, o->argument ? "=" : "");
    append_quoted(out, o->help);
    str_append(out, "]");
    struct str values;
    str_init(&values, VALUES_MAX);
    if (o->argument && append_values(&values, o->argument)) {
        str_printf(out, ": :(%s)", str_text(&values));
    } else if (is_workload(o->argument)) {
        str_printf(out, ":workload:(${(f)\"$(%s)\"})", ids_command);
    } else if (o->argument) {
        str_append(out, ":");
        append_quoted(out, o->argument);
        str_append(out, ":_files");
    }
    str_done(&values);
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
    struct str values;
    str_init(&values, VALUES_MAX);
    if (o->argument && append_values(&values, o->argument))
        str_printf(out, " -x -a '%s'", str_text(&values));
    else if (is_workload(o->argument))
        str_printf(out, " -x -a '(%s)'", ids_command);
    else if (o->argument)
        str_append(out, " -r");
    str_done(&values);
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
        if (strcmp(words, "commands") == 0) {
            str_printf(out, "complete -c gpumux -n '__fish_seen_subcommand_from %s' -f -a '",
                       c->name);
            append_commands(out);
            str_append(out, "'\n");
            continue;
        }
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
