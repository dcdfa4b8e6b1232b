#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4096, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t size;
    size_t used;
    _Alignas(ALIGN) unsigned char data[];
};

void arena_init(struct arena *a, size_t limit_bytes)
{
    *a = (struct arena){.limit_bytes = limit_bytes};
}

void arena_done(struct arena *a)
{
    struct arena_block *block = a->head;
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    a->head = NULL;
    a->used_bytes = 0;
}

/* Returns memory that is not zeroed, of ret_bytes with the padding. */
static void *take(struct arena *a, size_t bytes, size_t *ret_bytes)
{
    if (bytes > a->limit_bytes)
        return NULL;
    size_t need = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (need == 0)
        need = ALIGN;
    if (need > a->limit_bytes - a->used_bytes)
        return NULL;
    struct arena_block *block = a->head;
    if (!block || block->size - block->used < need) {
        size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        block = malloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (struct arena_block){.next = a->head, .size = size};
        a->head = block;
    }
    void *p = block->data + block->used;
    block->used += need;
    a->used_bytes += need;
    *ret_bytes = need;
    return p;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    size_t padded;
    void *p = take(a, bytes, &padded);
    return p ? memset(p, 0, padded) : NULL;
}

void *arena_array(struct arena *a, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        return NULL;
    return arena_alloc(a, total);
}

char *arena_strndup(struct arena *a, const char *s, size_t length)
{
    size_t padded;
    char *copy = length < SIZE_MAX ? take(a, length + 1, &padded) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, s, length);
    copy[length] = '\0';
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return NULL;
    char *text = arena_alloc(a, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}
