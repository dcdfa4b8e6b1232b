/* Reader and writer of the JSON files of a supervisor (supervisor.h). */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "model/node.h"
#include "model/workload.h"

enum {
    ATTEMPT_FILE_MAX = 16 << 20, /* bytes of any file */
    ATTEMPT_EXIT_MAX = 4096,     /* bytes of exit.json */
    ATTEMPT_NAME_MAX = 40,       /* "W.A" */
    BOOT_ID_MAX = 48,
};

/* The grant that the supervisor reads, in one line. The agent has resolved all names; the
 * supervisor resolves none. */
struct attempt_grant {
    uint64_t workload;
    int attempt;
    bool service;             /* the lease does not apply; the service must become ready */
    struct words command;     /* NULL-terminated */
    struct words environment; /* "KEY=value", NULL-terminated */
    const char *directory;
    int64_t grace_ms;
    int64_t time_limit_ms; /* 0: none */
    int64_t fence_ms, drain_ms;
    /* boot-clock time after which the command must not start, because another node may run the
     * task */
    int64_t begin_by_ms;
    int64_t log_file_bytes;
    int log_files;
    enum ready_kind ready;
    struct words ready_command;
    int ready_port;
    bool wants_stdin;
    enum proxy_kind proxy;  /* companion.h */
    int port, backend_port; /* with a proxy; backend_port 0: any free port */
    enum latency_source latency_from;
    int latency_port;
    const char *latency_metric; /* NULL or "": none */
    double slo_percentile;      /* percentile of a service's reported latency; 0: 99 */
    double slo_latency_ms, slo_first_ms, slo_between_ms; /* targets; 0: none */
};

/* record.json: identifies the processes. A start time distinguishes a process from a later process
 * with the same pid. */
struct attempt_record {
    char boot_id[BOOT_ID_MAX];
    pid_t supervisor_pid, task_pid;
    uint64_t supervisor_start, task_start; /* clock ticks since boot, from /proc */
    int64_t started_wall_ms;
};

int attempt_grant_write(const struct attempt_grant *grant, struct str *out);
int attempt_record_write(const struct attempt_record *record, struct str *out);
int attempt_exit_write(const struct attempt_report *exit, struct str *out);

/* Parse a file that the corresponding writer wrote. The parser ignores members that an older or
 * newer version wrote, and returns -ERR_CORRUPT for any other deviation. The workload's user can
 * write these files: parsed values may be false, but are safe to add to clocks and to report. */
int attempt_grant_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                        struct attempt_grant *ret);
int attempt_record_parse(struct error *e, const char *text, size_t length,
                         struct attempt_record *ret);
int attempt_exit_parse(struct error *e, const char *text, size_t length,
                       struct attempt_report *ret);

/* Writes the name of an attempt's directory, such as "17.1". Returns text. */
char *attempt_name(uint64_t workload, int attempt, char text[ATTEMPT_NAME_MAX]);
bool attempt_name_parse(const char *text, uint64_t *ret_workload, int *ret_attempt);
