/* Reader and writer of the JSON that a supervisor (supervisor.h) gets and writes. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/node.h"
#include "model/workload.h"

enum {
    ATTEMPT_FILE_MAX = 16 << 20, /* bytes of any of them */
    ATTEMPT_EXIT_MAX = 4096,     /* of exit.json */
    ATTEMPT_NAME_MAX = 40,       /* "W.A" */
    BOOT_ID_MAX = 48,
};

/* Everything that a supervisor needs, in one line. All names are resolved; nothing is looked up
 * later. */
struct attempt_grant {
    uint64_t workload;
    int attempt;
    bool service;             /* not bound to the lease; readiness counts */
    struct words command;     /* NULL-terminated */
    struct words environment; /* "KEY=value", NULL-terminated */
    const char *directory;
    int64_t grace_ms;
    int64_t time_limit_ms; /* 0: none */
    int64_t fence_ms, drain_ms;
    int64_t begin_by_ms; /* boot clock; later the task may run elsewhere, so it must not begin */
    int64_t log_file_bytes;
    int log_files;
    enum ready_kind ready;
    struct words ready_command;
    int ready_port;
    bool wants_stdin;
    double slo_percentile; /* that a service's latency is reported at; 0: 99 */
};

/* record.json: identifies the processes; a start time tells a process from a later one of the same
 * pid. */
struct attempt_record {
    char boot_id[BOOT_ID_MAX];
    pid_t supervisor_pid, task_pid;
    uint64_t supervisor_start, task_start; /* clock ticks since boot, as /proc says */
    int64_t started_wall_ms;
};

int attempt_grant_write(const struct attempt_grant *grant, struct str *out);
int attempt_record_write(const struct attempt_record *record, struct str *out);
int attempt_exit_write(const struct attempt_report *exit, struct str *out);

/* -ERR_CORRUPT on anything that the writers do not write, except members that a neighbouring
 * version adds. The workload's user can write these files: parsed values are safe to add to clocks
 * and to report, but need not be true. */
int attempt_grant_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                        struct attempt_grant *ret);
int attempt_record_parse(struct error *e, const char *text, size_t length,
                         struct attempt_record *ret);
int attempt_exit_parse(struct error *e, const char *text, size_t length,
                       struct attempt_report *ret);

/* "17.1", the name of an attempt's directory; returns text. */
char *attempt_name(uint64_t workload, int attempt, char text[ATTEMPT_NAME_MAX]);
bool attempt_name_parse(const char *text, uint64_t *ret_workload, int *ret_attempt);
