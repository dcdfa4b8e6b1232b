#include "report/markup.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

static const char *escape_of(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return (unsigned char)c < ' ' && c != '\n' && c != '\t' ? replacement : NULL;
    }
}

void markup_text(struct str *out, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t valid = str_utf8_prefix(text, left);
        for (size_t i = 0; i < valid; i++) {
            const char *escape = escape_of(text[i]);
            if (escape)
                str_append(out, escape);
            else
                str_append_char(out, text[i]);
        }
        text += valid;
        left -= valid;
        if (left > 0) {
            str_append(out, replacement);
            text++;
            left--;
        }
    }
}
