/*
 * Names of devices, as a driver reports them. An accepted text has exactly the digits of its bytes,
 * in their order, and the parser reads no byte behind the text's end (the copy is as long as the
 * text).
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shim/sys/uuid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_taken(const char *text, const uint8_t uuid[UUID_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    int at = 0;
    for (text += strlen("GPU-"); *text; text++) {
        if (*text == '-')
            continue;
        check(at < 2 * UUID_BYTES);
        uint8_t byte = uuid[at / 2];
        char lower = *text >= 'A' && *text <= 'F' ? (char)(*text - 'A' + 'a') : *text;
        check(lower == digits[at % 2 ? byte & 15 : byte >> 4]);
        at++;
    }
    check(at == 2 * UUID_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t uuid[UUID_BYTES];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (uuid_parse(text, uuid))
        check_taken(text, uuid);
    free(text);
    return 0;
}
