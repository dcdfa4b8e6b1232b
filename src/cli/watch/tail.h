/* The last lines of an output that goes by. */
#pragma once
#include "cli/connect/follow.h"

enum {
    TAIL_LINES_MAX = 100000,
    TAIL_PIECES_MAX = 1024, /* of lines that came in pieces, kept beside them */
};

struct tail {
    size_t lines;      /* wanted */
    size_t full_count; /* lines that end, among what is kept */
    size_t capacity, first, count;
    struct logline *kept; /* a ring; each owns its time, behind which its text is */
};

/* lines: at most TAIL_LINES_MAX. -ERR_NO_MEMORY. */
int tail_init(struct tail *t, size_t lines);
void tail_done(struct tail *t);
/* Takes a copy, and forgets what is no longer among the last. -ERR_NO_MEMORY. */
int tail_keep(struct tail *t, const struct logline *line);
/* Hands on what is kept, oldest first: one that has not ended is a line too. A negative answer ends
 * it. */
int tail_emit(struct tail *t, follow_line_fn on_line, void *arg);
