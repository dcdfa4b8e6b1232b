/* The last lines of an output stream. */
#pragma once
#include "cli/connect/follow.h"

enum {
    TAIL_LINES_MAX = 100000,
    TAIL_PIECES_MAX = 1024, /* partial lines, kept beside the complete lines */
};

struct tail {
    size_t lines;      /* number of lines wanted */
    size_t full_count; /* number of complete lines kept */
    size_t capacity, first, count;
    struct logline *kept; /* ring of lines; each owns its time and text, in one allocation */
};

/* Starts an empty tail of at most TAIL_LINES_MAX lines. Returns 0 or -ERR_NO_MEMORY. */
int tail_init(struct tail *t, size_t lines);
void tail_done(struct tail *t);
/* Adds a copy of the line, and drops lines that are no longer among the last `lines` lines. Returns
 * 0 or -ERR_NO_MEMORY. */
int tail_keep(struct tail *t, const struct logline *line);
/* Passes the lines to on_line, oldest first; an unfinished line counts as a line. A negative result
 * of on_line ends the call with that result. */
int tail_emit(struct tail *t, follow_line_fn on_line, void *arg);
