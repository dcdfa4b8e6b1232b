/*
 * Arena: many small allocations that are freed together. A request, a parsed document or a batch
 * owns an arena. Allocation fails (NULL) beyond the limit set at init, so no input makes a daemon
 * grow without bound.
 */
#pragma once
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used_bytes;
    size_t limit_bytes;
};

void arena_init(struct arena *a, size_t limit_bytes);
/* Frees every allocation of the arena. May be called on a zeroed arena, and twice. */
void arena_done(struct arena *a);
/* Returns zeroed memory aligned for any type; NULL beyond the limit or when out of memory. */
void *arena_alloc(struct arena *a, size_t bytes);
/* Returns a zeroed array; NULL also when count * bytes overflows. */
void *arena_array(struct arena *a, size_t count, size_t bytes);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t length);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
