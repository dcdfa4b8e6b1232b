/* Parser of server-sent events (text/event-stream). The caller feeds bytes in pieces of any
 * size. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { SSE_LINE_MAX = 1 << 20, SSE_EVENT_MAX = 64 };

struct sse_event {
    uint64_t id;      /* the latest id in the stream, of this event or an earlier event; 0: none */
    const char *what; /* event type; "" if absent */
    const char *data; /* data lines, joined by newlines */
};

/* Receives an event. A result other than 0 (an -ERR_x) stops the parser, which returns that
 * result. */
typedef int (*sse_fn)(void *arg, const struct sse_event *event);

/* Members are private to the parser. */
struct sse_parser {
    struct str line, data;
    char what[SSE_EVENT_MAX];
    uint64_t id;
    sse_fn on_event;
    void *arg;
};

void sse_parser_init(struct sse_parser *p, sse_fn on_event, void *arg);
void sse_parser_done(struct sse_parser *p);
/* Parses bytes. Returns 0, -ERR_TOO_LARGE for a line or an event past SSE_LINE_MAX, or the result
 * of the callback. */
int sse_parser_feed(struct sse_parser *p, const char *bytes, size_t length);
