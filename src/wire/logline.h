/*
 * A line of a workload's output as it is kept and sent:
 *
 *   2026-11-15T05:46:15.123456789Z stdout F text
 *
 * F: the text was followed by a newline. P: it was not; the next piece of the stream continues it.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Points into what was parsed. */
struct logline {
    const char *time;
    size_t time_length;
    bool is_stderr, is_full;
    const char *text;
    size_t length;
};

/* line: without its newline. false: it is no such line. */
bool logline_parse(const char *line, size_t length, struct logline *ret);
