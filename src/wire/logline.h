/*
 * The format of one line of a workload's output, in files and messages:
 *
 *   2026-11-15T05:46:15.123456789Z stdout F text
 *
 * F (full): the text ended with a newline. P (partial): the stream's next line continues the text.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Points into the parsed line. */
struct logline {
    const char *time;
    size_t time_length;
    bool is_stderr, is_full;
    const char *text;
    size_t length;
};

/* Parses a line without its newline. Returns false if the line does not have this format. */
bool logline_parse(const char *line, size_t length, struct logline *ret);
