#include "node/supervisor/attempt_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES sizeof(const char *)
/* The end of the year 9999, as far as a time can be written. */
#define WALL_MS_MAX INT64_C(253402300799999)

enum { PORT_MAX = 65535, SIGNAL_MAX = 64 };

char *attempt_name(uint64_t workload, int attempt, char text[ATTEMPT_NAME_MAX])
{
    snprintf(text, ATTEMPT_NAME_MAX, "%" PRIu64 ".%d", workload, attempt);
    return text;
}

bool attempt_name_parse(const char *text, uint64_t *ret_workload, int *ret_attempt)
{
    uint64_t workload;
    int attempt;
    char canonical[ATTEMPT_NAME_MAX];
    if (sscanf(text, "%20" SCNu64 ".%9d", &workload, &attempt) != 2 || attempt < 1)
        return false;
    if (!str_equal(attempt_name(workload, attempt, canonical), text))
        return false;
    *ret_workload = workload;
    *ret_attempt = attempt;
    return true;
}

/* ---- writing ---- */

static json_t *words_to_json(const struct words *words)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < words->count; i++)
        if (json_array_append_new(array, json_string(words->items[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static int append_chunk(const char *bytes, size_t length, void *out)
{
    str_append_bytes(out, bytes, length);
    return 0;
}

/* Takes root. */
static int write_json(json_t *root, struct str *out)
{
    if (!root)
        return -ERR_NO_MEMORY;
    int failed = json_dump_callback(root, append_chunk, out, JSON_COMPACT);
    json_decref(root);
    str_append_char(out, '\n');
    return failed || str_failed(out) ? -ERR_NO_MEMORY : 0;
}

int attempt_grant_write(const struct attempt_grant *grant, struct str *out)
{
    return write_json(
        json_pack("{sI si sb so so ss sI sI sI sI sI sI si ss so si sb sf}", "workload",
                  (json_int_t)grant->workload, "attempt", grant->attempt, "service", grant->service,
                  "command", words_to_json(&grant->command), "environment",
                  words_to_json(&grant->environment), "directory", grant->directory, "grace_ms",
                  (json_int_t)grant->grace_ms, "time_limit_ms", (json_int_t)grant->time_limit_ms,
                  "fence_ms", (json_int_t)grant->fence_ms, "drain_ms", (json_int_t)grant->drain_ms,
                  "begin_by_ms", (json_int_t)grant->begin_by_ms, "log_file_bytes",
                  (json_int_t)grant->log_file_bytes, "log_files", grant->log_files, "ready",
                  ready_kind_name(grant->ready), "ready_command",
                  words_to_json(&grant->ready_command), "ready_port", grant->ready_port, "stdin",
                  grant->wants_stdin, "slo_percentile", grant->slo_percentile),
        out);
}

int attempt_record_write(const struct attempt_record *record, struct str *out)
{
    return write_json(json_pack("{ss si sI si sI sI}", "boot_id", record->boot_id, "supervisor_pid",
                                (int)record->supervisor_pid, "supervisor_start",
                                (json_int_t)record->supervisor_start, "task_pid",
                                (int)record->task_pid, "task_start", (json_int_t)record->task_start,
                                "started_wall_ms", (json_int_t)record->started_wall_ms),
                      out);
}

int attempt_exit_write(const struct attempt_report *exit, struct str *out)
{
    /* Sentences are cut to fit, perhaps inside a character: JSON would refuse the whole. */
    size_t text_length = str_utf8_prefix(exit->text, strlen(exit->text));
    return write_json(
        json_pack("{sI si sI sI ss si si sb ss%}", "workload", (json_int_t)exit->workload,
                  "attempt", exit->attempt, "started_wall_ms", (json_int_t)exit->started_wall_ms,
                  "ended_wall_ms", (json_int_t)exit->ended_wall_ms, "failure",
                  failure_reason_name(exit->failure), "exit_code", exit->exit_code, "signal",
                  exit->signal, "never_ran", exit->never_ran, "text", exit->text, text_length),
        out);
}

/* ---- reading ---- */

static int words_from_json(struct arena *arena, json_t *array, struct words *ret)
{
    if (!json_is_array(array))
        return -ERR_CORRUPT;
    size_t count = json_array_size(array);
    const char **items = arena_array(arena, count + 1, WORD_BYTES);
    if (!items)
        return -ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(array, i));
        if (!text)
            return -ERR_CORRUPT;
        items[i] = arena_strdup(arena, text);
        if (!items[i])
            return -ERR_NO_MEMORY;
    }
    *ret = (struct words){.count = count, .items = items};
    return 0;
}

/* Ten years at most: such times are added to the clock's. */
static bool is_time_ms(int64_t ms)
{
    return ms >= 0 && ms <= WORKLOAD_TIME_MS_MAX;
}

static bool is_wall_ms(int64_t ms)
{
    return ms >= 0 && ms <= WALL_MS_MAX;
}

static bool is_grant(const struct attempt_grant *g)
{
    return g->attempt >= 1 && g->command.count > 0 && g->log_files >= 1 && g->log_file_bytes >= 1 &&
           is_time_ms(g->grace_ms) && is_time_ms(g->time_limit_ms) && is_time_ms(g->fence_ms) &&
           is_time_ms(g->drain_ms) && g->ready_port >= 0 && g->ready_port <= PORT_MAX &&
           g->slo_percentile >= 0 && g->slo_percentile <= 100;
}

static int parse_root(struct error *e, const char *text, size_t length, json_t **ret)
{
    json_error_t problem;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        return error_set(e, ERR_CORRUPT, "line %d: %s", problem.line, problem.text);
    *ret = root;
    return 0;
}

int attempt_grant_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                        struct attempt_grant *ret)
{
    json_t *root = NULL;
    int r = parse_root(e, text, length, &root);
    if (r < 0)
        return r;
    struct attempt_grant grant = {0};
    json_t *command, *environment, *ready_command;
    json_int_t workload, grace, limit, fence, drain, begin_by, file_bytes;
    const char *directory, *ready;
    int service, wants_stdin;
    json_error_t problem;
    if (json_unpack_ex(
            root, &problem, 0, "{sI si sb so so ss sI sI sI sI sI sI si ss so si sb s?F}",
            "workload", &workload, "attempt", &grant.attempt, "service", &service, "command",
            &command, "environment", &environment, "directory", &directory, "grace_ms", &grace,
            "time_limit_ms", &limit, "fence_ms", &fence, "drain_ms", &drain, "begin_by_ms",
            &begin_by, "log_file_bytes", &file_bytes, "log_files", &grant.log_files, "ready",
            &ready, "ready_command", &ready_command, "ready_port", &grant.ready_port, "stdin",
            &wants_stdin, "slo_percentile", &grant.slo_percentile) < 0) {
        json_decref(root);
        return error_set(e, ERR_CORRUPT, "%s", problem.text);
    }
    grant.workload = (uint64_t)workload;
    grant.service = service;
    grant.wants_stdin = wants_stdin;
    grant.grace_ms = grace;
    grant.time_limit_ms = limit;
    grant.fence_ms = fence;
    grant.drain_ms = drain;
    grant.begin_by_ms = begin_by;
    grant.log_file_bytes = file_bytes;
    grant.directory = arena_strdup(arena, directory);
    r = words_from_json(arena, command, &grant.command);
    if (r == 0)
        r = words_from_json(arena, environment, &grant.environment);
    if (r == 0)
        r = words_from_json(arena, ready_command, &grant.ready_command);
    if (r == 0 && (ready_kind_parse(ready, &grant.ready) < 0 || !is_grant(&grant)))
        r = -ERR_CORRUPT;
    json_decref(root);
    if (r == 0 && !grant.directory)
        r = -ERR_NO_MEMORY;
    if (r < 0)
        return error_set(e, (enum error_code) - r, "this is not a grant");
    *ret = grant;
    return 0;
}

int attempt_record_parse(struct error *e, const char *text, size_t length,
                         struct attempt_record *ret)
{
    json_t *root = NULL;
    int r = parse_root(e, text, length, &root);
    if (r < 0)
        return r;
    struct attempt_record record = {0};
    const char *boot_id;
    int supervisor_pid, task_pid;
    json_int_t supervisor_start, task_start, started;
    json_error_t problem;
    if (json_unpack_ex(root, &problem, 0, "{ss si sI si sI sI}", "boot_id", &boot_id,
                       "supervisor_pid", &supervisor_pid, "supervisor_start", &supervisor_start,
                       "task_pid", &task_pid, "task_start", &task_start, "started_wall_ms",
                       &started) < 0)
        r = error_set(e, ERR_CORRUPT, "%s", problem.text);
    else if (!str_copy(record.boot_id, sizeof record.boot_id, boot_id) || supervisor_pid < 1 ||
             task_pid < 1 || !is_wall_ms(started))
        r = error_set(e, ERR_CORRUPT, "this is not a record");
    json_decref(root);
    if (r < 0)
        return r;
    record.supervisor_pid = supervisor_pid;
    record.task_pid = task_pid;
    record.supervisor_start = (uint64_t)supervisor_start;
    record.task_start = (uint64_t)task_start;
    record.started_wall_ms = started;
    *ret = record;
    return 0;
}

int attempt_exit_parse(struct error *e, const char *text, size_t length, struct attempt_report *ret)
{
    json_t *root = NULL;
    int r = parse_root(e, text, length, &root);
    if (r < 0)
        return r;
    struct attempt_report report = {.phase = ATTEMPT_EXITED};
    const char *failure, *sentence;
    json_int_t workload, started, ended;
    int never_ran;
    json_error_t problem;
    if (json_unpack_ex(root, &problem, 0, "{sI si sI sI ss si si sb ss}", "workload", &workload,
                       "attempt", &report.attempt, "started_wall_ms", &started, "ended_wall_ms",
                       &ended, "failure", &failure, "exit_code", &report.exit_code, "signal",
                       &report.signal, "never_ran", &never_ran, "text", &sentence) < 0)
        r = error_set(e, ERR_CORRUPT, "%s", problem.text);
    else if (failure_reason_parse(failure, &report.failure) < 0)
        r = error_set(e, ERR_CORRUPT, "\"%s\" is no failure", failure);
    else if (report.attempt < 1 || report.signal < 0 || report.signal > SIGNAL_MAX ||
             !is_wall_ms(started) || !is_wall_ms(ended))
        r = error_set(e, ERR_CORRUPT, "this is not an end");
    else if (!str_copy(report.text, sizeof report.text, sentence))
        report.text[str_utf8_prefix(report.text, sizeof report.text - 1)] = '\0';
    json_decref(root);
    if (r < 0)
        return r;
    report.workload = (uint64_t)workload;
    report.started_wall_ms = started;
    report.ended_wall_ms = ended;
    report.never_ran = never_ran;
    *ret = report;
    return 0;
}
