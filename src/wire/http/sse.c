#include "wire/http/sse.h"

#include <string.h>

void sse_parser_init(struct sse_parser *p, sse_fn on_event, void *arg)
{
    *p = (struct sse_parser){.on_event = on_event, .arg = arg};
    str_init(&p->line, SSE_LINE_MAX);
    str_init(&p->data, SSE_LINE_MAX);
}

void sse_parser_done(struct sse_parser *p)
{
    str_done(&p->line);
    str_done(&p->data);
}

/* Sets the last id; an id that is not a number is ignored. */
static void take_id(struct sse_parser *p, const char *value)
{
    enum { DIGITS_MAX = 18 };
    size_t digits = strspn(value, "0123456789");
    if (digits == 0 || digits > DIGITS_MAX || value[digits])
        return;
    p->id = 0;
    for (size_t i = 0; i < digits; i++)
        p->id = p->id * 10 + (uint64_t)(value[i] - '0');
}

static int dispatch(struct sse_parser *p)
{
    int r = 0;
    if (p->data.length > 0) {
        struct sse_event event = {.id = p->id, .what = p->what, .data = str_text(&p->data)};
        r = p->on_event(p->arg, &event);
    }
    str_clear(&p->data);
    p->what[0] = '\0';
    return r;
}

static int handle_line(struct sse_parser *p, char *line)
{
    if (!*line)
        return dispatch(p);
    char *value = strchrnul(line, ':');
    if (*value) {
        *value++ = '\0';
        if (*value == ' ')
            value++;
    }
    if (strcmp(line, "data") == 0) {
        if (p->data.length > 0)
            str_append_char(&p->data, '\n');
        str_append(&p->data, value);
    } else if (strcmp(line, "event") == 0) {
        (void)str_copy(p->what, sizeof p->what, value);
    } else if (strcmp(line, "id") == 0) {
        take_id(p, value);
    }
    return str_failed(&p->data) ? -ERR_TOO_LARGE : 0;
}

int sse_parser_feed(struct sse_parser *p, const char *bytes, size_t length)
{
    while (length > 0) {
        const char *end = memchr(bytes, '\n', length);
        size_t text = end ? (size_t)(end - bytes) : length;
        str_append_bytes(&p->line, bytes, text);
        if (str_failed(&p->line))
            return -ERR_TOO_LARGE;
        if (!end)
            return 0;
        if (p->line.length > 0 && p->line.data[p->line.length - 1] == '\r')
            p->line.data[--p->line.length] = '\0';
        int r = handle_line(p, p->line.data);
        str_clear(&p->line);
        if (r < 0)
            return r;
        bytes += text + 1;
        length -= text + 1;
    }
    return 0;
}
