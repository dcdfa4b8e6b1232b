/*
 * The files that an agent reads from a directory of the workload's user. The first byte selects the
 * file. An accepted file reads back equal, and control accepts the report: otherwise control would
 * refuse the node's messages and close its connection.
 */
#include <string.h>

#include "node/supervisor/attempt_file.h"
#include "wire/fuzz_fixture.h"
#include "wire/nodemsg.h"

enum { MEMORY_MAX = 64 << 20 };

/* The input, and the text written from the values read. */
struct texts {
    struct str first, second;
};

static void fuzz_grant(struct arena *arena, const char *text, size_t length, struct texts *texts)
{
    struct attempt_grant grant;
    struct error e = {0};
    int r = attempt_grant_parse(&e, arena, text, length, &grant);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r < 0)
        return;
    fuzz_check(!grant.command.items[grant.command.count]);
    fuzz_check(!grant.environment.items[grant.environment.count]);
    fuzz_check(attempt_grant_write(&grant, &texts->first) == 0);
    fuzz_check(attempt_grant_parse(NULL, arena, str_text(&texts->first), texts->first.length,
                                   &grant) == 0);
    fuzz_check(attempt_grant_write(&grant, &texts->second) == 0);
}

static void check_control_takes(struct arena *arena, const struct attempt_report *report)
{
    struct str line;
    str_init(&line, NODEMSG_LINE_MAX);
    struct nodemsg msg = {
        .type = NODEMSG_REPORT, .session = 1, .attempt_count = 1, .attempts = report};
    fuzz_check(nodemsg_write(&msg, &line) == 0);
    fuzz_check(nodemsg_parse(NULL, arena, str_text(&line), line.length - 1, &msg) == 0);
    str_done(&line);
}

static void fuzz_record(struct arena *arena, const char *text, size_t length, struct texts *texts)
{
    struct attempt_record record;
    struct error e = {0};
    int r = attempt_record_parse(&e, text, length, &record);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r < 0)
        return;
    fuzz_check(record.supervisor_pid > 0 && record.task_pid > 0);
    fuzz_check(attempt_record_write(&record, &texts->first) == 0);
    fuzz_check(attempt_record_parse(NULL, str_text(&texts->first), texts->first.length, &record) ==
               0);
    fuzz_check(attempt_record_write(&record, &texts->second) == 0);
    const struct attempt_report report = {.workload = 1,
                                          .attempt = 1,
                                          .phase = ATTEMPT_RUNNING,
                                          .started_wall_ms = record.started_wall_ms};
    check_control_takes(arena, &report);
}

static void fuzz_exit(struct arena *arena, const char *text, size_t length, struct texts *texts)
{
    struct attempt_report report;
    struct error e = {0};
    int r = attempt_exit_parse(&e, text, length, &report);
    fuzz_check(r == 0 || (r == -e.code && e.text[0]));
    if (r < 0)
        return;
    fuzz_check(attempt_exit_write(&report, &texts->first) == 0);
    fuzz_check(attempt_exit_parse(NULL, str_text(&texts->first), texts->first.length, &report) ==
               0);
    fuzz_check(attempt_exit_write(&report, &texts->second) == 0);
    /* The agent detects another workload's number, because it knows whose directory it reads. */
    report.workload = 1;
    check_control_takes(arena, &report);
}

static void fuzz_name(struct arena *arena, const char *text, size_t length)
{
    const char *name = arena_strndup(arena, text, length);
    uint64_t workload;
    int attempt;
    char again[ATTEMPT_NAME_MAX];
    if (name && attempt_name_parse(name, &workload, &attempt))
        fuzz_check(attempt > 0 && str_equal(attempt_name(workload, attempt, again), name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct arena arena;
    struct texts texts;
    arena_init(&arena, MEMORY_MAX);
    str_init(&texts.first, MEMORY_MAX);
    str_init(&texts.second, MEMORY_MAX);
    const char *text = (const char *)data + 1;
    if (data[0] == 'g')
        fuzz_grant(&arena, text, size - 1, &texts);
    else if (data[0] == 'r')
        fuzz_record(&arena, text, size - 1, &texts);
    else if (data[0] == 'e')
        fuzz_exit(&arena, text, size - 1, &texts);
    else
        fuzz_name(&arena, text, size - 1);
    fuzz_check(str_equal(str_text(&texts.first), str_text(&texts.second)));
    str_done(&texts.first);
    str_done(&texts.second);
    arena_done(&arena);
    return 0;
}
