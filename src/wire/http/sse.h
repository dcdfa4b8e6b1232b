/* Parser of server-sent events (text/event-stream), fed with bytes as they come. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { SSE_LINE_MAX = 1 << 20, SSE_EVENT_MAX = 64 };

struct sse_event {
    uint64_t id;      /* the last one given, by this event or one before; 0: none */
    const char *what; /* "" if not said */
    const char *data; /* several data lines are joined by newlines */
};

/* ≠ 0 (an -ERR_x) stops the parser, which then answers with it. */
typedef int (*sse_fn)(void *arg, const struct sse_event *event);

/* Members are the parser's own. */
struct sse_parser {
    struct str line, data;
    char what[SSE_EVENT_MAX];
    uint64_t id;
    sse_fn on_event;
    void *arg;
};

void sse_parser_init(struct sse_parser *p, sse_fn on_event, void *arg);
void sse_parser_done(struct sse_parser *p);
/* -ERR_TOO_LARGE: a line or an event past SSE_LINE_MAX. */
int sse_parser_feed(struct sse_parser *p, const char *bytes, size_t length);
