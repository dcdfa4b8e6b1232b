/*
 * str: a growing byte buffer with a maximum. Once an append would pass it, or memory is out, the
 * buffer is marked failed, further appends do nothing, and str_failed() says so: a writer appends
 * freely and checks once, at the end.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct str {
    char *data; /* NUL-terminated once anything was appended; owned by the str */
    size_t length;
    size_t capacity;
    size_t max;
    bool failed;
};

void str_init(struct str *s, size_t max_bytes);
void str_done(struct str *s);
/* Empties it and keeps the memory. */
void str_clear(struct str *s);
/* Drops what was appended after the first `length` bytes, and forgets a failure. */
void str_truncate(struct str *s, size_t length);
void str_append(struct str *s, const char *text);
void str_append_bytes(struct str *s, const void *bytes, size_t length);
void str_append_char(struct str *s, char c);
void str_printf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool str_failed(const struct str *s);
/* The text, never NULL. Valid until the next call on s. */
const char *str_text(const struct str *s);
/* Hands the buffer to the caller, who frees it; s is empty afterwards. NULL if it failed. */
char *str_take(struct str *s);

/* Plain-string questions. */
bool str_equal(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts_with(const char *s, const char *prefix);
/* Valid UTF-8 without NUL, surrogates or overlong forms. */
bool str_is_utf8(const char *bytes, size_t length);
/* How many bytes at the start are that: where a text that was cut to fit is cut once more. */
size_t str_utf8_prefix(const char *bytes, size_t length);
/* Edit distance, capped at `limit`: for "did you mean". */
size_t str_distance(const char *a, const char *b, size_t limit);

/* Copies into a fixed buffer of `size`; false (and a truncated copy) when it does not fit. */
bool str_copy(char *to, size_t size, const char *from);
