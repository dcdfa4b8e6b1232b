#include "report/markup_fixture.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { DEPTH_MAX = 32, IDS_MAX = 512, ATTRIBUTES_MAX = 32 };

struct word {
    const char *at;
    size_t length;
};

struct check {
    const char *text, *at;
    size_t depth, id_count;
    struct word open[DEPTH_MAX], ids[IDS_MAX];
    char *why;
    size_t why_size;
};

static bool __attribute__((format(printf, 2, 3))) wrong(struct check *c, const char *format, ...)
{
    va_list arguments;
    int length = snprintf(c->why, c->why_size, "at byte %zu: ", (size_t)(c->at - c->text));
    va_start(arguments, format);
    (void)vsnprintf(c->why + length, c->why_size - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

static bool same(struct word a, struct word b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static struct word take_name(struct check *c)
{
    struct word w = {.at = c->at};
    while (isalnum((unsigned char)*c->at) || (*c->at && strchr("-_:.", *c->at)))
        c->at++;
    w.length = (size_t)(c->at - w.at);
    return w;
}

static void skip_space(struct check *c)
{
    while (isspace((unsigned char)*c->at))
        c->at++;
}

static bool check_entity(struct check *c)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_starts_with(c->at, known[i])) {
            c->at += strlen(known[i]);
            return true;
        }
    const char *digit = c->at + 2;
    if (c->at[1] == '#')
        while (isdigit((unsigned char)*digit))
            digit++;
    if (c->at[1] != '#' || digit == c->at + 2 || *digit != ';')
        return wrong(c, "a bare &: %.20s", c->at);
    c->at = digit + 1;
    return true;
}

/* Checks text up to one of `ends`. */
static bool check_text(struct check *c, const char *ends)
{
    while (*c->at && !strchr(ends, *c->at)) {
        if ((unsigned char)*c->at < ' ' && *c->at != '\n' && *c->at != '\t')
            return wrong(c, "a control character");
        if (*c->at == '<')
            return wrong(c, "a bare <");
        if (*c->at != '&')
            c->at++;
        else if (!check_entity(c))
            return false;
    }
    return true;
}

static bool check_attribute(struct check *c, struct word *names, size_t *count)
{
    struct word name = take_name(c);
    if (name.length == 0 || *c->at++ != '=' || *c->at++ != '"')
        return wrong(c, "no attribute: %.20s", c->at);
    for (size_t i = 0; i < *count; i++)
        if (same(names[i], name))
            return wrong(c, "twice: %.*s", (int)name.length, name.at);
    if (*count == ATTRIBUTES_MAX)
        return wrong(c, "too many attributes");
    names[(*count)++] = name;
    struct word value = {.at = c->at};
    if (!check_text(c, "\""))
        return false;
    value.length = (size_t)(c->at - value.at);
    if (*c->at++ != '"')
        return wrong(c, "an attribute without an end");
    if (name.length != 2 || memcmp(name.at, "id", 2) != 0)
        return true;
    for (size_t i = 0; i < c->id_count; i++)
        if (same(c->ids[i], value))
            return wrong(c, "the id %.*s is there twice", (int)value.length, value.at);
    if (c->id_count == IDS_MAX)
        return wrong(c, "too many ids");
    c->ids[c->id_count++] = value;
    return true;
}

static bool check_tag(struct check *c)
{
    struct word names[ATTRIBUTES_MAX];
    size_t count = 0;
    if (str_starts_with(c->at, "</")) {
        c->at += 2;
        struct word name = take_name(c);
        if (c->depth == 0 || !same(c->open[--c->depth], name) || *c->at++ != '>')
            return wrong(c, "closes what is not open: %.*s", (int)name.length, name.at);
        return true;
    }
    c->at++;
    struct word name = take_name(c);
    if (name.length == 0)
        return wrong(c, "no element");
    for (skip_space(c); *c->at && *c->at != '>' && *c->at != '/'; skip_space(c))
        if (!check_attribute(c, names, &count))
            return false;
    if (str_starts_with(c->at, "/>")) {
        c->at += 2;
        return true;
    }
    if (*c->at++ != '>')
        return wrong(c, "a tag without an end");
    if (c->depth == DEPTH_MAX)
        return wrong(c, "too deep");
    c->open[c->depth++] = name;
    return true;
}

bool markup_is_well_formed(const char *text, char *why, size_t size)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    struct check c = {.text = text, .at = text, .why = why, .why_size = size};
    if (!str_is_utf8(text, strlen(text)))
        return wrong(&c, "no UTF-8");
    if (str_starts_with(text, doctype))
        c.at += strlen(doctype);
    while (*c.at) {
        if (*c.at == '<' && !check_tag(&c))
            return false;
        if (*c.at != '<' && !check_text(&c, "<"))
            return false;
    }
    return c.depth == 0 ||
           wrong(&c, "not closed: %.*s", (int)c.open[c.depth - 1].length, c.open[c.depth - 1].at);
}
