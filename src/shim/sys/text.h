/* Compares names without the C library, which entry.c must not call (entry.c explains why). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

static inline bool text_equals(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static inline bool text_starts(const char *text, const char *start)
{
    while (*start && *text == *start)
        text++, start++;
    return !*start;
}
