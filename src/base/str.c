#include "base/str.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void str_init(struct str *s, size_t max_bytes)
{
    *s = (struct str){.max = max_bytes};
}

void str_done(struct str *s)
{
    free(s->data);
    *s = (struct str){.max = s->max};
}

void str_clear(struct str *s)
{
    str_truncate(s, 0);
}

void str_truncate(struct str *s, size_t length)
{
    s->failed = false;
    if (length > s->length)
        return;
    s->length = length;
    if (s->data)
        s->data[length] = '\0';
}

static bool grow(struct str *s, size_t need)
{
    size_t capacity = s->capacity ? s->capacity * 2 : 256;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(s->data, capacity);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->capacity = capacity;
    return true;
}

static inline bool reserve(struct str *s, size_t more)
{
    if (s->failed)
        return false;
    if (more > s->max || s->length > s->max - more) {
        s->failed = true;
        return false;
    }
    size_t need = s->length + more + 1;
    return need <= s->capacity || grow(s, need);
}

char *str_extend(struct str *s, size_t length)
{
    if (!reserve(s, length))
        return NULL;
    char *added = s->data + s->length;
    s->length += length;
    added[length] = '\0';
    return added;
}

void str_append_bytes(struct str *s, const void *bytes, size_t length)
{
    char *added = str_extend(s, length);
    if (added && length)
        memcpy(added, bytes, length);
}

void str_append(struct str *s, const char *text)
{
    str_append_bytes(s, text, strlen(text));
}

void str_append_char(struct str *s, char c)
{
    if (!reserve(s, 1))
        return;
    s->data[s->length++] = c;
    s->data[s->length] = '\0';
}

void str_append_uint(struct str *s, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    str_append_bytes(s, digits + at, sizeof digits - at);
}

void str_printf(struct str *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0 || !reserve(s, (size_t)length)) {
        s->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(s->data + s->length, (size_t)length + 1, format, args);
    va_end(args);
    s->length += (size_t)length;
}

bool str_failed(const struct str *s)
{
    return s->failed;
}

const char *str_text(const struct str *s)
{
    return s->data ? s->data : "";
}

bool str_equal(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool str_starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Returns the length of the sequence at p, or 0 if it is not valid UTF-8. */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    if (p[0] == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t length = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                    : p[0] >= 0xe0 && p[0] <= 0xef ? 3
                    : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool outside = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

size_t str_utf8_prefix(const char *bytes, size_t length)
{
    const unsigned char *p = (const unsigned char *)bytes;
    size_t valid = 0;
    for (size_t step = 1; step && valid < length; valid += step)
        step = utf8_sequence(p + valid, length - valid);
    return valid;
}

bool str_is_utf8(const char *bytes, size_t length)
{
    return str_utf8_prefix(bytes, length) == length;
}

size_t str_distance(const char *a, const char *b, size_t limit)
{
    enum { LENGTH_MAX = 64 };
    size_t la = strlen(a), lb = strlen(b);
    if (la > LENGTH_MAX || lb > LENGTH_MAX)
        return limit;
    size_t row[LENGTH_MAX + 1];
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[lb] < limit ? row[lb] : limit;
}

bool str_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    size_t copied = length < size ? length : size - 1;
    memcpy(to, from, copied);
    to[copied] = '\0';
    return copied == length;
}
