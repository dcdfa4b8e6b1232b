#include "cli/sim/sim_report.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/durable.h"
#include "base/version.h"
#include "report/report.h"
#include "sim/campaign.h"

enum { COMMAND_LINE_MAX = 64 << 10 };
static const char file_name[] = "report.html";

/* Returns whether the option changes no byte of the results. */
static bool is_left_out(const char *option)
{
    static const char *const names[] = {"out", "threads", "json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

/* Appends a word quoted for a shell. */
static void quote(struct str *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=:,./@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        str_append(out, word);
        return;
    }
    str_append_char(out, '\'');
    for (; *word; word++)
        if (*word == '\'')
            str_append(out, "'\\''");
        else
            str_append_char(out, *word);
    str_append_char(out, '\'');
}

/* Options appear in the order of the table, so the bytes do not depend on the order given. */
static void write_command(const struct invocation *in, struct str *out)
{
    str_append(out, "gpumux sim");
    for (const struct option *o = in->command->options; o->name; o++) {
        if (is_left_out(o->name) || !option_given(in, o->name))
            continue;
        str_printf(out, " --%s", o->name);
        if (o->argument) {
            str_append_char(out, ' ');
            quote(out, option_value(in, o->name));
        }
    }
}

static int replace_file(struct error *e, const char *directory, const struct str *text)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open the directory %s", directory);
    int r = durable_replace(e, fd, file_name, text->data, text->length);
    (void)close(fd);
    return r;
}

int sim_report_write(struct error *e, const struct invocation *in, const char *trace,
                     const char *nodes, const struct campaign_config *config,
                     const struct campaign_run *runs)
{
    struct str command, text;
    str_init(&command, COMMAND_LINE_MAX);
    str_init(&text, REPORT_BYTES_MAX);
    write_command(in, &command);
    const struct report report = {.command = str_text(&command),
                                  .trace = trace,
                                  .nodes = nodes,
                                  .version = GPUMUX_VERSION,
                                  .config = config,
                                  .runs = runs};
    int r = report_write(e, &report, &text);
    if (r == 0)
        r = replace_file(e, config->directory, &text);
    str_done(&text);
    str_done(&command);
    return r;
}
