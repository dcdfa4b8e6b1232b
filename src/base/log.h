/*
 * Structured logs of the daemons: one line an event, key=value, to standard error.
 *
 *   log_write(log, LOG_INFO, "attempt started", "workload=%llu attempt=%d node=%s", …)
 *   → 2026-11-15T05:46:15.123Z info attempt started workload=17 attempt=1 node=box
 *
 * Library code returns errors and does not log; the mains and the parts that run inside a daemon's
 * loop log. A struct log is passed down, there is no global one.
 */
#pragma once
#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log {
    int fd;
    enum log_level level; /* what is more verbose than this is dropped */
    bool json;            /* one JSON object a line instead */
};

void log_init(struct log *log, int fd, enum log_level level, bool json);
/* fields: printf format of space-separated key=value pairs, or "". Log of NULL drops the line. */
void log_write(const struct log *log, enum log_level level, const char *message, const char *fields,
               ...) __attribute__((format(printf, 4, 5)));
/* "error", "warn", "info", "debug" → level; false if it is none of them. */
bool log_level_parse(const char *text, enum log_level *ret_level);
