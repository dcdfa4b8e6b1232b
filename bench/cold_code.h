/*
 * Code and data that evict the caches, as a program's own code does between two calls: lines of
 * code that jump to each other in an unpredictable order, and as much data. C and C++.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { COLD_LINE_BYTES = 64, COLD_JUMP_BYTES = 5 };

struct cold_code {
    size_t bytes; /* of the code, and of the data */
    unsigned char *code;
    volatile unsigned char *data;
};

/* Never freed. Returns false without memory, or without executable memory. */
static inline bool cold_make(size_t bytes, struct cold_code *ret_cold)
{
    size_t lines = bytes / COLD_LINE_BYTES;
    size_t *order = (size_t *)calloc(lines, sizeof(*order));
    unsigned char *data = (unsigned char *)calloc(1, bytes);
    unsigned char *code = (unsigned char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!order || !data || code == (unsigned char *)MAP_FAILED)
        return false;
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; i > 1; i--) {
        size_t other = 1 + (size_t)rand() % i, kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i + 1 < lines; i++) {
        unsigned char *from = code + order[i] * COLD_LINE_BYTES;
        int32_t distance =
            (int32_t)(code + order[i + 1] * COLD_LINE_BYTES - (from + COLD_JUMP_BYTES));
        from[0] = 0xe9; /* jmp */
        memcpy(from + 1, &distance, sizeof(distance));
    }
    code[order[lines - 1] * COLD_LINE_BYTES] = 0xc3; /* ret */
    free(order);
    ret_cold->bytes = bytes;
    ret_cold->code = code;
    ret_cold->data = data;
    return mprotect(code, bytes, PROT_READ | PROT_EXEC) == 0;
}

static inline void cold_run(const struct cold_code *cold)
{
    for (size_t at = 0; at < cold->bytes; at += COLD_LINE_BYTES)
        cold->data[at] = (unsigned char)(cold->data[at] + 1);
    ((void (*)(void))(uintptr_t)cold->code)();
}
