#include "wire/base64.h"

#include <stdint.h>

#include "base/error.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_append(struct str *out, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    char chunk[1024];
    size_t used = 0;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t group = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                         (left > 2 ? p[i + 2] : 0u);
        chunk[used++] = alphabet[group >> 18];
        chunk[used++] = alphabet[group >> 12 & 63];
        chunk[used++] = left > 1 ? alphabet[group >> 6 & 63] : '=';
        chunk[used++] = left > 2 ? alphabet[group & 63] : '=';
        if (used == sizeof chunk) {
            str_append_bytes(out, chunk, used);
            used = 0;
        }
    }
    str_append_bytes(out, chunk, used);
}

/* Returns 0…63, or -1. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct arena *arena, const char *text, size_t length, void **ret_bytes,
                  size_t *ret_length)
{
    if (length % 4)
        return -ERR_INVALID;
    size_t padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    unsigned char *bytes = arena_alloc(arena, length / 4 * 3);
    if (!bytes)
        return -ERR_NO_MEMORY;
    size_t used = 0, digits = length - padding;
    uint32_t group = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return -ERR_INVALID;
        group = group << 6 | (uint32_t)value;
        if (i % 4 != 3)
            continue;
        bytes[used++] = (unsigned char)(group >> 16);
        bytes[used++] = (unsigned char)(group >> 8);
        bytes[used++] = (unsigned char)group;
        group = 0;
    }
    /* The last group has 12 bits with two '=', and 18 bits with one. */
    if ((padding == 2 && group & 0xf) || (padding == 1 && group & 0x3))
        return -ERR_INVALID;
    if (padding == 2)
        bytes[used++] = (unsigned char)(group >> 4);
    if (padding == 1) {
        bytes[used++] = (unsigned char)(group >> 10);
        bytes[used++] = (unsigned char)(group >> 2);
    }
    *ret_bytes = bytes;
    *ret_length = used;
    return 0;
}
