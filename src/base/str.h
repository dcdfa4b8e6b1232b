/*
 * str: a growing byte buffer with a maximum size. An append beyond the maximum, or without memory,
 * marks the buffer as failed; further appends do nothing, and str_failed() returns true. So a
 * writer appends without checks and checks once at the end.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    char *data; /* NUL-terminated after the first append; owned by the str */
    size_t length;
    size_t capacity;
    size_t max;
    bool failed;
};

void str_init(struct str *s, size_t max_bytes);
void str_done(struct str *s);
/* Empties the buffer and keeps its memory. */
void str_clear(struct str *s);
/* Truncates the text to its first `length` bytes and clears the failure mark. */
void str_truncate(struct str *s, size_t length);
void str_append(struct str *s, const char *text);
void str_append_bytes(struct str *s, const void *bytes, size_t length);
void str_append_char(struct str *s, char c);
/* Appends `length` bytes that the caller must write at once; returns them, or NULL on failure. */
char *str_extend(struct str *s, size_t length);
/* Appends a number in decimal digits. */
void str_append_uint(struct str *s, uint64_t number);
void str_printf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool str_failed(const struct str *s);
/* Returns the text, never NULL. Valid until the next call on s. */
const char *str_text(const struct str *s);

/* Functions on plain strings. */
bool str_equal(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts_with(const char *s, const char *prefix);
/* Returns whether the bytes are valid UTF-8 without NUL, surrogates or overlong forms. */
bool str_is_utf8(const char *bytes, size_t length);
/* Returns the length of the longest prefix that str_is_utf8() accepts; for cutting a truncated text
 * at a character boundary. */
size_t str_utf8_prefix(const char *bytes, size_t length);
/* Returns the edit distance, capped at `limit`; for "did you mean" suggestions. */
size_t str_distance(const char *a, const char *b, size_t limit);

/* Copies into a fixed buffer of `size`; returns false and truncates the copy if it does not fit. */
bool str_copy(char *to, size_t size, const char *from);
