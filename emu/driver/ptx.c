#include "emu/driver/ptx.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

struct scanner {
    const char *at, *end;
};

struct token {
    const char *start;
    size_t length; /* 0: the end */
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void skip_blanks(struct scanner *s)
{
    while (s->at < s->end) {
        size_t left = (size_t)(s->end - s->at);
        if (isspace((unsigned char)*s->at)) {
            s->at++;
        } else if (left >= 2 && s->at[0] == '/' && s->at[1] == '/') {
            const char *newline = memchr(s->at, '\n', left);
            s->at = newline ? newline : s->end;
        } else if (left >= 2 && s->at[0] == '/' && s->at[1] == '*') {
            const char *close = memmem(s->at + 2, left - 2, "*/", 2);
            s->at = close ? close + 2 : s->end;
        } else {
            return;
        }
    }
}

/* Returns a word (directives keep their dot: ".param"), a string, or one other character. */
static struct token next_token(struct scanner *s)
{
    skip_blanks(s);
    struct token token = {.start = s->at};
    if (s->at == s->end)
        return token;
    if (*s->at == '"') {
        const char *close = memchr(s->at + 1, '"', (size_t)(s->end - s->at) - 1);
        s->at = close ? close + 1 : s->end;
    } else if (is_word(*s->at)) {
        do
            s->at++;
        while (s->at < s->end && is_word(*s->at) && *s->at != '.');
    } else {
        s->at++;
    }
    token.length = (size_t)(s->at - token.start);
    return token;
}

static bool token_is(struct token token, const char *text)
{
    return token.length == strlen(text) && memcmp(token.start, text, token.length) == 0;
}

/* ".u32" → 4; 0 for a type that no parameter has. */
static uint32_t type_bytes(struct token token)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {
        {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2},   {".u16", 2}, {".s16", 2},
        {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},   {".f32", 4}, {".b64", 8},
        {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (token_is(token, types[i].name))
            return types[i].bytes;
    }
    return 0;
}

static int parse_count(struct token token, uint32_t *ret_count)
{
    enum { COUNT_MAX = 1 << 20 };
    uint32_t count = 0;
    for (size_t i = 0; i < token.length; i++) {
        if (!isdigit((unsigned char)token.start[i]))
            return -ERR_SYNTAX;
        count = count * 10 + (uint32_t)(token.start[i] - '0');
        if (count > COUNT_MAX)
            return -ERR_TOO_LARGE;
    }
    *ret_count = count;
    return token.length > 0 ? 0 : -ERR_SYNTAX;
}

/* Parses the text after ".param" in a parameter list, up to and including the ',' or ')' that ends
 * it, which is returned. */
static int parse_parameter(struct scanner *s, struct ptx_entry *entry, char *ret_end)
{
    uint32_t bytes = 0, align = 0, count = 1;
    for (;;) {
        struct token token = next_token(s);
        int r = 0;
        if (token.length == 0)
            return -ERR_SYNTAX;
        if (token_is(token, ",") || token_is(token, ")")) {
            *ret_end = token.start[0];
            break;
        }
        if (token_is(token, ".align"))
            r = parse_count(next_token(s), &align);
        else if (token_is(token, "["))
            r = parse_count(next_token(s), &count);
        else if (bytes == 0 && type_bytes(token) > 0)
            bytes = type_bytes(token);
        if (r < 0)
            return r;
    }
    if (bytes == 0 || count == 0)
        return -ERR_SYNTAX;
    if (entry->parameter_count == PTX_PARAMETERS_MAX)
        return -ERR_TOO_LARGE;
    if (align < bytes)
        align = bytes;
    if ((align & (align - 1)) != 0)
        return -ERR_SYNTAX;
    uint32_t offset = (entry->buffer_bytes + align - 1) & ~(align - 1);
    entry->parameters[entry->parameter_count++] =
        (struct ptx_parameter){.offset = offset, .bytes = bytes * count};
    entry->buffer_bytes = offset + bytes * count;
    return 0;
}

/* Parses the text after ".entry": a name, and an optional list of parameters. */
static int parse_entry(struct scanner *s, struct ptx_entry *entry)
{
    struct token name = next_token(s);
    if (name.length == 0 || !is_word(name.start[0]) || name.start[0] == '.')
        return -ERR_SYNTAX;
    if (name.length >= PTX_NAME_MAX)
        return -ERR_TOO_LARGE;
    memset(entry, 0, sizeof(*entry));
    memcpy(entry->name, name.start, name.length);
    struct scanner before = *s;
    if (!token_is(next_token(s), "(")) {
        *s = before;
        return 0;
    }
    for (char end = ','; end == ',';) {
        struct token token = next_token(s);
        if (token_is(token, ")") && entry->parameter_count == 0)
            return 0;
        if (!token_is(token, ".param"))
            return -ERR_SYNTAX;
        int r = parse_parameter(s, entry, &end);
        if (r < 0)
            return r;
    }
    return 0;
}

int ptx_parse(const char *text, size_t length,
              int (*found)(void *argument, const struct ptx_entry *entry), void *argument)
{
    if (length > PTX_TEXT_BYTES_MAX)
        return -ERR_TOO_LARGE;
    struct scanner s = {.at = text, .end = text + length};
    if (!token_is(next_token(&s), ".version"))
        return -ERR_SYNTAX;
    bool has_target = false;
    unsigned entries = 0;
    for (struct token token = next_token(&s); token.length > 0; token = next_token(&s)) {
        has_target |= token_is(token, ".target");
        if (!token_is(token, ".entry"))
            continue;
        struct ptx_entry entry;
        int r = parse_entry(&s, &entry);
        if (r == 0 && ++entries > PTX_ENTRIES_MAX)
            r = -ERR_TOO_LARGE;
        if (r == 0)
            r = found(argument, &entry);
        if (r != 0)
            return r;
    }
    return has_target ? 0 : -ERR_SYNTAX;
}
