#include "shim/sys/uuid.h"

#include "shim/sys/text.h"

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool uuid_parse(const char *text, uint8_t ret_uuid[UUID_BYTES])
{
    static const char start[] = "GPU-";
    if (!text_starts(text, start))
        return false;
    text += sizeof(start) - 1;
    for (int i = 0; i < UUID_BYTES; i++) {
        if (*text == '-' && i > 0)
            text++;
        int high = digit_of(text[0]), low = high < 0 ? -1 : digit_of(text[1]);
        if (low < 0)
            return false;
        ret_uuid[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    return *text == '\0';
}
