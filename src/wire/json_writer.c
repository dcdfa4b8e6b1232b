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

/* Appends a comma if one is due, and the token. */
static void put_token(struct json_writer *w, const char *token, size_t length)
{
    char *to = str_extend(w->out, w->comma + length);
    if (!to)
        return;
    if (w->comma)
        *to++ = ',';
    memcpy(to, token, length);
    w->comma = true;
}

static void begin(struct json_writer *w, char bracket)
{
    put_token(w, &bracket, 1);
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

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void append_escaped(struct str *out, const char *text, size_t length)
{
    size_t plain = 0; /* start of the run that needs no escape */
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        size_t sequence = is_plain(text[i]) ? 1
                          : c >= 0x80       ? sequence_length(text + i, length - i)
                                            : 0;
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
}

/* Writes a text that needs no escape, with the separators on both sides. */
static void put_plain(struct json_writer *w, const char *text, size_t length, bool is_key)
{
    char *to = str_extend(w->out, w->comma + length + 2 + is_key);
    if (!to)
        return;
    if (w->comma)
        *to++ = ',';
    *to++ = '"';
    memcpy(to, text, length);
    to[length] = '"';
    if (is_key)
        to[length + 1] = ':';
    w->comma = !is_key;
}

static void put_text(struct json_writer *w, const char *text, size_t length, bool is_key)
{
    size_t plain = 0;
    while (plain < length && is_plain(text[plain]))
        plain++;
    if (plain == length) {
        put_plain(w, text, length, is_key);
        return;
    }
    put_token(w, "\"", 1);
    append_escaped(w->out, text, length);
    str_append(w->out, is_key ? "\":" : "\"");
    w->comma = !is_key;
}

struct json_writer *json_key(struct json_writer *w, const char *key)
{
    put_text(w, key, strlen(key), true);
    return w;
}

struct json_writer *json_plain_key(struct json_writer *w, const char *key)
{
    return json_plain_key_bytes(w, key, strlen(key));
}

struct json_writer *json_plain_key_bytes(struct json_writer *w, const char *key, size_t length)
{
    put_plain(w, key, length, true);
    return w;
}

void json_put_bytes(struct json_writer *w, const char *text, size_t length)
{
    put_text(w, text, length, false);
}

void json_put_string(struct json_writer *w, const char *text)
{
    if (text)
        json_put_bytes(w, text, strlen(text));
    else
        json_put_null(w);
}

static void put_digits(struct json_writer *w, const char *sign, uint64_t number)
{
    put_token(w, sign, strlen(sign));
    str_append_uint(w->out, number);
}

void json_put_int(struct json_writer *w, int64_t number)
{
    put_digits(w, number < 0 ? "-" : "", number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void json_put_uint(struct json_writer *w, uint64_t number)
{
    bool is_text = number > INT64_MAX;
    put_digits(w, is_text ? "\"" : "", number);
    if (is_text)
        str_append_char(w->out, '"');
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
    put_token(w, text, strlen(text));
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
    put_token(w, json, strlen(json));
}

void json_put_members(struct json_writer *w, const char *object)
{
    size_t length = strlen(object);
    if (length <= strlen("{}"))
        return;
    put_token(w, object + 1, length - 2);
}

void json_put_base64(struct json_writer *w, const void *bytes, size_t length)
{
    put_token(w, "\"", 1);
    base64_append(w->out, bytes, length);
    str_append_char(w->out, '"');
}
