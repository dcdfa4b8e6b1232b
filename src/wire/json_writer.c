#include "wire/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "wire/base64.h"

void json_writer_init(struct json_writer *w, struct str *out)
{
    *w = (struct json_writer){.out = out};
}

static void separate(struct json_writer *w)
{
    if (w->comma)
        str_append_char(w->out, ',');
    w->comma = true;
}

static void begin(struct json_writer *w, char bracket)
{
    separate(w);
    str_append_char(w->out, bracket);
    w->comma = false;
}

static void end(struct json_writer *w, char bracket)
{
    str_append_char(w->out, bracket);
    w->comma = true;
}

void json_begin_object(struct json_writer *w)
{
    begin(w, '{');
}

void json_end_object(struct json_writer *w)
{
    end(w, '}');
}

void json_begin_array(struct json_writer *w)
{
    begin(w, '[');
}

void json_end_array(struct json_writer *w)
{
    end(w, ']');
}

static void append_escape(struct str *out, unsigned char c)
{
    static const char letters[] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
                                   ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\'};
    char escape[2] = {'\\', c < sizeof letters ? letters[c] : '\0'};
    if (escape[1])
        str_append_bytes(out, escape, sizeof escape);
    else
        str_printf(out, "\\u%04x", c);
}

/* Returns the length of the valid UTF-8 sequence at p, whose first byte is 0x80 or more; 0:
 * invalid. */
static size_t sequence_length(const char *p, size_t left)
{
    for (size_t length = 2; length <= 4 && length <= left; length++)
        if (str_is_utf8(p, length))
            return length;
    return 0;
}

static void append_quoted(struct str *out, const char *text, size_t length)
{
    str_append_char(out, '"');
    size_t plain = 0; /* start of the run that needs no escape */
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t sequence = c >= 0x80 ? sequence_length(text + i, length - i) : 0;
        if (sequence) {
            i += sequence;
            continue;
        }
        str_append_bytes(out, text + plain, i - plain);
        if (c >= 0x80)
            str_append(out, "\xef\xbf\xbd");
        else
            append_escape(out, c);
        plain = ++i;
    }
    str_append_bytes(out, text + plain, length - plain);
    str_append_char(out, '"');
}

struct json_writer *json_key(struct json_writer *w, const char *key)
{
    separate(w);
    append_quoted(w->out, key, strlen(key));
    str_append_char(w->out, ':');
    w->comma = false;
    return w;
}

void json_put_bytes(struct json_writer *w, const char *text, size_t length)
{
    separate(w);
    append_quoted(w->out, text, length);
}

void json_put_string(struct json_writer *w, const char *text)
{
    if (text)
        json_put_bytes(w, text, strlen(text));
    else
        json_put_null(w);
}

static void append_digits(struct str *out, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    str_append_bytes(out, digits + at, sizeof digits - at);
}

void json_put_int(struct json_writer *w, int64_t number)
{
    separate(w);
    if (number < 0)
        str_append_char(w->out, '-');
    append_digits(w->out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void json_put_uint(struct json_writer *w, uint64_t number)
{
    separate(w);
    const char *quote = number > INT64_MAX ? "\"" : "";
    str_append(w->out, quote);
    append_digits(w->out, number);
    str_append(w->out, quote);
}

void json_put_real(struct json_writer *w, double number)
{
    if (!isfinite(number)) {
        json_put_null(w);
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    separate(w);
    str_append(w->out, text);
}

void json_put_bool(struct json_writer *w, bool value)
{
    json_put_raw(w, value ? "true" : "false");
}

void json_put_null(struct json_writer *w)
{
    json_put_raw(w, "null");
}

void json_put_time(struct json_writer *w, int64_t wall_ms)
{
    char text[CLOCK_TEXT_MAX];
    json_put_string(w, wall_ms ? clock_format(wall_ms, text) : NULL);
}

void json_put_raw(struct json_writer *w, const char *json)
{
    separate(w);
    str_append(w->out, json);
}

void json_put_members(struct json_writer *w, const char *object)
{
    size_t length = strlen(object);
    if (length <= strlen("{}"))
        return;
    separate(w);
    str_append_bytes(w->out, object + 1, length - 2);
}

void json_put_base64(struct json_writer *w, const void *bytes, size_t length)
{
    separate(w);
    str_append_char(w->out, '"');
    base64_append(w->out, bytes, length);
    str_append_char(w->out, '"');
}
