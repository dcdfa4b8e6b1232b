#include "proxy/prometheus.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':' || c == '.';
}

static void skip_blanks(const char **at, const char *end)
{
    while (*at < end && (**at == ' ' || **at == '\t'))
        ++*at;
}

/* Takes a number up to a blank or the end. */
static bool take_number(const char *text, size_t length, double *ret)
{
    char copy[PROMETHEUS_NUMBER_MAX], *end;
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    *ret = strtod(copy, &end);
    return *end == '\0';
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* Takes NAME="VALUE"; a backslash in the value escapes the next byte. */
static bool take_label(const char **at, const char *end, struct prometheus_sample *s)
{
    const char *name = *at;
    while (*at < end && is_name_char(**at))
        ++*at;
    size_t name_length = (size_t)(*at - name);
    skip_blanks(at, end);
    if (name_length == 0 || *at == end || *(*at)++ != '=')
        return false;
    skip_blanks(at, end);
    if (*at == end || *(*at)++ != '"')
        return false;
    const char *value = *at;
    while (*at < end && **at != '"')
        *at += **at == '\\' && *at + 1 < end ? 2 : 1;
    if (*at >= end)
        return false;
    size_t value_length = (size_t)(*at - value);
    ++*at;
    if (is_word(name, name_length, "le"))
        return take_number(value, value_length, &s->bound);
    if (is_word(name, name_length, "quantile"))
        return take_number(value, value_length, &s->quantile);
    s->series = hash_bytes(s->series, name, name_length + 1);
    s->series = hash_bytes(s->series, value, value_length + 1);
    return true;
}

static bool take_labels(const char **at, const char *end, struct prometheus_sample *s)
{
    for (;;) {
        skip_blanks(at, end);
        if (*at < end && **at == '}') {
            ++*at;
            return true;
        }
        if (!take_label(at, end, s))
            return false;
        skip_blanks(at, end);
        if (*at < end && **at == ',')
            ++*at;
        else if (*at == end || **at != '}')
            return false;
    }
}

bool prometheus_parse(const char *line, size_t length, struct prometheus_sample *ret)
{
    const char *at = line, *end = line + length;
    struct prometheus_sample s = {
        .bound = (double)NAN, .quantile = (double)NAN, .series = UINT64_C(0xcbf29ce484222325)};
    if (end > at && end[-1] == '\r')
        end--;
    skip_blanks(&at, end);
    s.name = at;
    while (at < end && is_name_char(*at))
        at++;
    s.name_length = (size_t)(at - s.name);
    skip_blanks(&at, end);
    if (s.name_length == 0 || (at < end && *at == '{' && (at++, !take_labels(&at, end, &s))))
        return false;
    skip_blanks(&at, end);
    const char *number = at;
    while (at < end && *at != ' ' && *at != '\t')
        at++;
    if (!take_number(number, (size_t)(at - number), &s.value))
        return false;
    *ret = s;
    return true;
}
