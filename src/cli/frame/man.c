/* Man pages in man(7), from the table of commands. */
#include <string.h>

#include "base/version.h"
#include "cli/frame/help.h"
#include "cli/frame/options.h"

enum { EXITS_MAX = 4 << 10 };

/* Appends text with the backslashes, leading dots and leading quotes of roff escaped. */
static void append_text(struct str *out, const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            str_append(out, "\\&");
        line_start = *text == '\n';
        if (*text == '\\')
            str_append(out, "\\e");
        else if (*text == '-')
            str_append(out, "\\-");
        else
            str_append_char(out, *text);
    }
}

/* Appends text; empty lines separate paragraphs. */
static void append_paragraphs(struct str *out, const char *text)
{
    while (*text) {
        const char *gap = strstr(text, "\n\n");
        size_t length = gap ? (size_t)(gap - text) : strlen(text);
        char part[4096];
        if (length >= sizeof part)
            length = sizeof part - 1;
        memcpy(part, text, length);
        part[length] = '\0';
        append_text(out, part);
        str_append(out, "\n");
        text += length;
        if (gap) {
            str_append(out, ".PP\n");
            text += strspn(text, "\n");
        }
    }
}

static void append_option(struct str *out, const struct option *o)
{
    str_append(out, ".TP\n\\fB");
    if (o->letter)
        str_printf(out, "\\-%c\\fR, \\fB", o->letter);
    str_append(out, "\\-\\-");
    append_text(out, o->name);
    str_append(out, "\\fR");
    if (o->argument) {
        str_append(out, " \\fI");
        append_text(out, o->argument);
        str_append(out, "\\fR");
    }
    str_append_char(out, '\n');
    append_text(out, o->help);
    str_append_char(out, '\n');
}

/* command may be NULL: see help_exits(). */
static void append_exits(struct str *out, const struct command *command)
{
    struct str exits;
    str_init(&exits, EXITS_MAX);
    help_exits(&exits, command);
    for (const char *lines = str_text(&exits); *lines;) {
        size_t code = strcspn(lines, " ");
        const char *text = lines + code + strspn(lines + code, " ");
        size_t length = strcspn(text, "\n");
        char line[512];
        if (length >= sizeof line)
            length = sizeof line - 1;
        memcpy(line, text, length);
        line[length] = '\0';
        str_printf(out, ".TP\n.B %.*s\n", (int)code, lines);
        append_text(out, line);
        str_append_char(out, '\n');
        lines = text + length + (text[length] == '\n');
    }
    str_done(&exits);
}

static void append_environment(struct str *out)
{
    str_append(out,
               ".SH ENVIRONMENT\n.TP\n.B GPUMUX_SOCKET\n"
               "path of the API socket, unless \\fB\\-\\-socket\\fR is given\n.TP\n"
               ".B GPUMUX_URL\n"
               "address of gpumux on another machine, https://HOST:PORT, unless \\fB\\-\\-url\\fR "
               "is given\n"
               ".TP\n.B GPUMUX_CA\n"
               "certificate authority of the gpumux on another machine: its fingerprint, "
               "sha256:HEX, or a file with its certificate (default: ~/.config/gpumux/ca.pem)\n"
               ".TP\n.B GPUMUX_TOKEN\n"
               "token for the gpumux on another machine (default: the content of GPUMUX_TOKEN_FILE "
               "or ~/.config/gpumux/token, which only its owner may read)\n"
               ".TP\n.B NO_COLOR\nif set, output to a terminal has no colours\n");
}

static void write_command(struct str *out, const struct command *c)
{
    str_printf(out, ".TH GPUMUX\\-%s 1 \"\" \"gpumux %s\" \"gpumux\"\n", c->name, GPUMUX_VERSION);
    str_printf(out, ".SH NAME\ngpumux\\-%s \\- ", c->name);
    append_text(out, c->summary);
    str_printf(out, "\n.SH SYNOPSIS\n\\fBgpumux %s\\fR", c->name);
    if (c->options && c->options->name)
        str_append(out, " [\\fIOPTIONS\\fR]");
    str_append(out, " ");
    append_text(out, c->operands);
    str_append(out, "\n.SH DESCRIPTION\n");
    append_paragraphs(out, c->description);
    str_append(out, ".SH OPTIONS\n");
    for (const struct option *o = c->options; o && o->name; o++)
        append_option(out, o);
    append_option(out, option_help());
    if (c->examples)
        str_append(out, ".SH EXAMPLES\n");
    for (const struct example *x = c->examples; x && x->command; x++) {
        str_append(out, ".TP\n.B ");
        append_text(out, x->command);
        str_append(out, "\n");
        append_text(out, x->what);
        str_append(out, "\n");
    }
    append_environment(out);
    str_append(out, ".SH EXIT STATUS\n");
    append_exits(out, c);
    str_append(out, ".SH SEE ALSO\n.BR gpumux (1)\n");
}

static void write_overview(struct str *out)
{
    str_printf(out, ".TH GPUMUX 1 \"\" \"gpumux %s\" \"gpumux\"\n", GPUMUX_VERSION);
    str_append(
        out,
        ".SH NAME\ngpumux \\- share the GPUs of a machine among workloads\n"
        ".SH SYNOPSIS\n\\fBgpumux\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
        ".SH DESCRIPTION\n"
        "gpumux queues workloads, places them on devices and keeps them running. \\fBgpumux up\\fR "
        "starts gpumux on this machine; the other commands connect to a gpumux that is up.\n"
        ".SH COMMANDS\n");
    for (const struct command *c = command_table(); c->name; c++) {
        if (c->hidden)
            continue;
        str_printf(out, ".TP\n.BR gpumux\\-%s (1)\n", c->name);
        append_text(out, c->summary);
        str_append_char(out, '\n');
    }
    append_environment(out);
    str_append(out, ".SH EXIT STATUS\n");
    append_exits(out, NULL);
}

void help_write_man(struct str *out, const struct command *command)
{
    if (command)
        write_command(out, command);
    else
        write_overview(out);
}
