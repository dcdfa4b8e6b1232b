#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

enum { LINE_MAX_BYTES = 4096 };

static const char *const level_names[] = {
    [LOG_ERROR] = "error", [LOG_WARN] = "warn", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};

void log_init(struct log *log, int fd, enum log_level level, bool json)
{
    *log = (struct log){.fd = fd, .level = level, .json = json};
}

bool log_level_parse(const char *text, enum log_level *ret_level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static void append_json_string(struct str *line, const char *s, size_t length)
{
    str_append_char(line, '"');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            str_printf(line, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            str_printf(line, "\\u%04x", c);
        else
            str_append_char(line, (char)c);
    }
    str_append_char(line, '"');
}

/* Fields are "a=1 b=two words=last": a pair starts at each word that contains '='. */
static void append_json_fields(struct str *line, const char *fields)
{
    const char *p = fields;
    while (*p) {
        while (*p == ' ')
            p++;
        const char *equals = strchr(p, '=');
        if (!equals)
            return;
        const char *end = equals + 1;
        if (*end == '"') {
            const char *close = strchr(end + 1, '"');
            end = close ? close + 1 : end + strlen(end);
        } else {
            end += strcspn(end, " ");
        }
        str_append(line, ", ");
        append_json_string(line, p, (size_t)(equals - p));
        str_append(line, ": ");
        const char *value = equals + 1;
        size_t length = (size_t)(end - value);
        if (length >= 2 && value[0] == '"' && value[length - 1] == '"') {
            value++;
            length -= 2;
        }
        append_json_string(line, value, length);
        p = end;
    }
}

void log_write(const struct log *log, enum log_level level, const char *message, const char *fields,
               ...)
{
    if (!log || level > log->level)
        return;
    char pairs[LINE_MAX_BYTES / 2];
    va_list args;
    va_start(args, fields);
    vsnprintf(pairs, sizeof pairs, fields, args);
    va_end(args);
    for (char *p = pairs; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' '; /* keep one event on one line, whatever a user's string contains */

    char when[CLOCK_TEXT_MAX];
    clock_format(clock_wall_ms(), when);
    struct str line;
    str_init(&line, LINE_MAX_BYTES);
    if (log->json) {
        str_printf(&line, "{\"time\": \"%s\", \"level\": \"%s\", \"message\": ", when,
                   level_names[level]);
        append_json_string(&line, message, strlen(message));
        append_json_fields(&line, pairs);
        str_append(&line, "}\n");
    } else {
        str_printf(&line, "%s %s %s%s%s\n", when, level_names[level], message, pairs[0] ? " " : "",
                   pairs);
    }
    if (!str_failed(&line)) {
        /* A single write per line keeps lines of several processes intact. On a full disk the line
         * is lost, which is harmless. */
        ssize_t ignored = write(log->fd, str_text(&line), line.length);
        (void)ignored;
    }
    str_done(&line);
}
