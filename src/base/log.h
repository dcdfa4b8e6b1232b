/*
 * Structured logs of the daemons: one line per event, key=value, to standard error.
 *
 *   log_write(log, LOG_INFO, "attempt started", "workload=%llu attempt=%d node=%s", …)
 *   → 2026-11-15T05:46:15.123Z info attempt started workload=17 attempt=1 node=box
 *
 * Libraries return errors and write no logs. Only main programs and the parts of a daemon that run
 * in its event loop write logs. Callers pass a struct log down; there is no global log.
 */
#pragma once
#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log {
    int fd;
    enum log_level level; /* most verbose level that is written */
    bool json;            /* one JSON object per line instead of key=value */
};

void log_init(struct log *log, int fd, enum log_level level, bool json);
/* fields: printf format of space-separated key=value pairs, or "". A NULL log drops the line. */
void log_write(const struct log *log, enum log_level level, const char *message, const char *fields,
               ...) __attribute__((format(printf, 4, 5)));
/* Parses "error", "warn", "info" or "debug"; returns false for any other text. */
bool log_level_parse(const char *text, enum log_level *ret_level);
