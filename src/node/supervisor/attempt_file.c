#include "node/supervisor/attempt_file.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/objects.h"

enum { PORT_MAX = 65535 };

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

#define OF                 struct attempt_grant
#define TIME(key, member)  FIELD(key, member, .most = WORKLOAD_TIME_MS_MAX)
#define WORDS(key, member) FIELD_LIST(key, member.items, member.count, .most = ATTEMPT_FILE_MAX)
static const struct field grant_members[] = {
    FIELD("workload", workload),
    FIELD("attempt", attempt, .least = 1),
    FIELD("service", service),
    WORDS("command", command),
    WORDS("environment", environment),
    FIELD("directory", directory),
    TIME("grace_ms", grace_ms),
    TIME("time_limit_ms", time_limit_ms),
    TIME("fence_ms", fence_ms),
    TIME("drain_ms", drain_ms),
    FIELD("begin_by_ms", begin_by_ms, .least = INT64_MIN, .most = INT64_MAX),
    FIELD("log_file_bytes", log_file_bytes, .least = 1),
    FIELD("log_files", log_files, .least = 1),
    FIELD("ready", ready, .names = &ready_kind_names),
    WORDS("ready_command", ready_command),
    FIELD("ready_port", ready_port, .most = PORT_MAX),
    FIELD("stdin", wants_stdin),
    FIELD("slo_percentile", slo_percentile, .most = 100, .flags = FIELD_OPTIONAL),
    FIELD("slo_latency_ms", slo_latency_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_OPTIONAL),
    FIELD("slo_first_ms", slo_first_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_OPTIONAL),
    FIELD("slo_between_ms", slo_between_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_OPTIONAL),
    FIELD("proxy", proxy, .names = &proxy_kind_names, .flags = FIELD_OPTIONAL),
    FIELD("port", port, .most = PORT_MAX, .flags = FIELD_OPTIONAL),
    FIELD("backend_port", backend_port, .most = PORT_MAX, .flags = FIELD_OPTIONAL),
    FIELD("latency_from", latency_from, .names = &latency_source_names, .flags = FIELD_OPTIONAL),
    FIELD("latency_port", latency_port, .most = PORT_MAX, .flags = FIELD_OPTIONAL),
    FIELD("latency_metric", latency_metric, .flags = FIELD_OPTIONAL),
};
#undef OF
static const struct fields grant_fields = FIELDS(struct attempt_grant, grant_members);

#define OF struct attempt_record
static const struct field record_members[] = {
    FIELD("boot_id", boot_id),
    FIELD("supervisor_pid", supervisor_pid, .least = 1),
    FIELD("supervisor_start", supervisor_start),
    FIELD("task_pid", task_pid, .least = 1),
    FIELD("task_start", task_start),
    FIELD("started", started_wall_ms, .flags = FIELD_WALL),
};
#undef OF
static const struct fields record_fields = FIELDS(struct attempt_record, record_members);

static int write_file(const struct fields *table, const void *object, struct str *out)
{
    int r = fields_write(table, FIELDS_FILE, object, out);
    str_append_char(out, '\n');
    return r == 0 && str_failed(out) ? -ERR_NO_MEMORY : r;
}

static int parse_file(struct error *e, struct arena *arena, const struct fields *table,
                      const char *text, size_t length, void *ret)
{
    const struct field_reader r = {
        .e = e, .code = ERR_CORRUPT, .arena = arena, .form = FIELDS_FILE};
    return fields_parse(&r, table, text, length, ret);
}

int attempt_grant_write(const struct attempt_grant *grant, struct str *out)
{
    return write_file(&grant_fields, grant, out);
}

int attempt_record_write(const struct attempt_record *record, struct str *out)
{
    return write_file(&record_fields, record, out);
}

int attempt_exit_write(const struct attempt_report *exit, struct str *out)
{
    return write_file(&attempt_report_fields, exit, out);
}

int attempt_grant_parse(struct error *e, struct arena *arena, const char *text, size_t length,
                        struct attempt_grant *ret)
{
    struct attempt_grant grant;
    int r = parse_file(e, arena, &grant_fields, text, length, &grant);
    if (r == 0 && grant.command.count == 0)
        return error_set_field(e, ERR_CORRUPT, "command", "there is nothing to run");
    if (r == 0)
        *ret = grant;
    return r;
}

int attempt_record_parse(struct error *e, const char *text, size_t length,
                         struct attempt_record *ret)
{
    return parse_file(e, NULL, &record_fields, text, length, ret);
}

int attempt_exit_parse(struct error *e, const char *text, size_t length, struct attempt_report *ret)
{
    int r = parse_file(e, NULL, &attempt_report_fields, text, length, ret);
    if (r == 0)
        ret->phase = ATTEMPT_EXITED;
    return r;
}
