#include "node/attempt/own_record.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/durable.h"
#include "wire/json_writer.h"

#define GRANT_SUFFIX ".grant"

enum {
    STATE_FILE_MAX = 32 << 10,
    GRANT_FILE_MAX = 2 * ATTEMPT_FILE_MAX + TERMS_FILE_MAX,
    NAME_BYTES = ATTEMPT_NAME_MAX + sizeof GRANT_SUFFIX,
    PID_LARGEST = 1 << 30,
};

/* ---- the grant ---- */

int own_terms_write(const struct own_record *record, struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_put_int(json_key(&w, "grace_ms"), record->grace_ms);
    json_key(&w, "terms");
    terms_put(&w, &record->terms);
    json_end_object(&w);
    str_append_char(out, '\n');
    return str_failed(out) ? -ERR_TOO_LARGE : 0;
}

static int load_root(struct error *e, const char *text, size_t length, json_t **ret)
{
    json_error_t problem;
    *ret = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
    return *ret ? 0 : error_set(e, ERR_CORRUPT, "line %d: %s", problem.line, problem.text);
}

int own_terms_parse(struct error *e, const char *text, size_t length, struct own_record *ret)
{
    json_t *root, *terms;
    json_int_t grace_ms;
    struct own_record record = {0};
    int r = load_root(e, text, length, &root);
    if (r < 0)
        return r;
    bool good = json_unpack(root, "{sI so}", "grace_ms", &grace_ms, "terms", &terms) == 0 &&
                grace_ms >= 0 && grace_ms <= WORKLOAD_TIME_MS_MAX &&
                terms_take(terms, &record.terms);
    json_decref(root);
    if (!good)
        return error_set(e, ERR_CORRUPT, "these are not the terms of an attempt");
    record.grace_ms = grace_ms;
    *ret = record;
    return 0;
}

/* ---- its state ---- */

static void put_report(struct json_writer *w, const struct attempt_report *report)
{
    json_put_string(json_key(w, "phase"), attempt_phase_name(report->phase));
    json_put_int(json_key(w, "turn"), report->turn);
    json_put_bool(json_key(w, "cleared"), report->cleared);
    json_put_string(json_key(w, "suspension"), suspension_name(report->suspension));
    json_put_int(json_key(w, "started_wall_ms"), report->started_wall_ms);
    json_put_int(json_key(w, "ended_wall_ms"), report->ended_wall_ms);
    json_put_string(json_key(w, "failure"), failure_reason_name(report->failure));
    json_put_int(json_key(w, "exit_code"), report->exit_code);
    json_put_int(json_key(w, "signal"), report->signal);
    json_put_bool(json_key(w, "never_ran"), report->never_ran);
    json_put_string(json_key(w, "report_verdict"), attempt_verdict_name(report->verdict));
    json_put_string(json_key(w, "text"), report->text);
}

static void put_moved(struct json_writer *w, const struct own_record *record)
{
    json_put_uint(json_key(w, "moved_bytes"), record->moved_bytes);
    json_begin_array(json_key(w, "moved"));
    for (size_t i = 0; i < record->moved_count; i++) {
        json_begin_array(w);
        json_put_int(w, record->moved[i].pid);
        json_put_uint(w, record->moved[i].start);
        json_end_array(w);
    }
    json_end_array(w);
}

int own_state_write(const struct own_record *record, const struct attempt_kept *kept,
                    struct str *out)
{
    static const char *const places[] = {
        [PLACE_DEVICE] = "device", [PLACE_HOST] = "host", [PLACE_UNKNOWN] = "unknown"};
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    put_report(&w, &kept->report);
    json_put_string(json_key(&w, "verdict"), attempt_verdict_name(kept->verdict));
    json_put_string(json_key(&w, "why"), kept->why);
    json_put_int(json_key(&w, "end_by_ms"), kept->end_by_ms);
    json_put_string(json_key(&w, "without_mps"),
                    kept->without_mps ? record->terms.without_mps : "");
    json_put_bool(json_key(&w, "wants_off"), kept->wants_off);
    json_put_string(json_key(&w, "place"), places[kept->place]);
    put_moved(&w, record);
    json_put_int(json_key(&w, "supervisor_pid"), record->supervisor_pid);
    json_put_uint(json_key(&w, "supervisor_start"), record->supervisor_start);
    json_end_object(&w);
    str_append_char(out, '\n');
    return str_failed(out) ? -ERR_TOO_LARGE : 0;
}

static bool take_report(json_t *root, struct attempt_report *report)
{
    const char *phase, *suspension, *failure, *verdict, *text;
    json_int_t started_wall_ms, ended_wall_ms;
    int cleared, never_ran;
    if (json_unpack(root, "{ss si sb ss sI sI ss si si sb ss ss}", "phase", &phase, "turn",
                    &report->turn, "cleared", &cleared, "suspension", &suspension,
                    "started_wall_ms", &started_wall_ms, "ended_wall_ms", &ended_wall_ms, "failure",
                    &failure, "exit_code", &report->exit_code, "signal", &report->signal,
                    "never_ran", &never_ran, "report_verdict", &verdict, "text", &text) < 0)
        return false;
    report->cleared = cleared;
    report->never_ran = never_ran;
    report->started_wall_ms = started_wall_ms;
    report->ended_wall_ms = ended_wall_ms;
    return attempt_phase_parse(phase, &report->phase) == 0 && report->turn >= 0 &&
           suspension_parse(suspension, &report->suspension) == 0 && started_wall_ms >= 0 &&
           ended_wall_ms >= 0 && failure_reason_parse(failure, &report->failure) == 0 &&
           attempt_verdict_parse(verdict, &report->verdict) == 0 &&
           str_copy(report->text, sizeof report->text, text);
}

static bool take_moved(json_t *list, struct own_record *record)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > CHECKPOINT_PROCESSES_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        json_int_t pid, start;
        if (json_unpack(json_array_get(list, i), "[II]", &pid, &start) < 0 || pid < 1 ||
            pid > PID_LARGEST || start < 0)
            return false;
        record->moved[i] = (struct moved_process){.pid = (pid_t)pid, .start = (uint64_t)start};
    }
    record->moved_count = count;
    return true;
}

static bool take_state(json_t *root, struct own_record *record, struct attempt_kept *kept)
{
    static const char *const places[] = {"device", "host", "unknown"};
    const char *verdict, *why, *without_mps, *place;
    json_int_t end_by_ms, bytes, pid, start;
    json_t *moved;
    int wants_off;
    if (json_unpack(root, "{ss ss sI ss sb ss sI so sI sI}", "verdict", &verdict, "why", &why,
                    "end_by_ms", &end_by_ms, "without_mps", &without_mps, "wants_off", &wants_off,
                    "place", &place, "moved_bytes", &bytes, "moved", &moved, "supervisor_pid", &pid,
                    "supervisor_start", &start) < 0)
        return false;
    int at = PLACE_DEVICE;
    while (at <= PLACE_UNKNOWN && !str_equal(places[at], place))
        at++;
    if (at > PLACE_UNKNOWN || bytes < 0 || pid < 0 || pid > PID_LARGEST || start < 0 ||
        attempt_verdict_parse(verdict, &kept->verdict) < 0 ||
        !str_copy(kept->why, sizeof kept->why, why) || !take_moved(moved, record))
        return false;
    kept->place = (enum attempt_place)at;
    kept->wants_off = wants_off;
    kept->end_by_ms = end_by_ms;
    kept->without_mps = without_mps[0] != '\0';
    record->moved_bytes = (uint64_t)bytes;
    record->supervisor_pid = (pid_t)pid;
    record->supervisor_start = (uint64_t)start;
    if (kept->without_mps && strlen(without_mps) < TERMS_WHY_MAX)
        terms_lose_mps(&record->terms, without_mps);
    return strlen(without_mps) < TERMS_WHY_MAX;
}

int own_state_parse(struct error *e, const char *text, size_t length, struct own_record *record,
                    struct attempt_kept *kept)
{
    struct own_record changed = *record;
    struct attempt_kept now = *kept;
    json_t *root;
    int r = load_root(e, text, length, &root);
    if (r < 0)
        return r;
    bool good = take_report(root, &now.report) && take_state(root, &changed, &now);
    json_decref(root);
    if (!good)
        return error_set(e, ERR_CORRUPT, "this is not the state of an attempt");
    *record = changed;
    *kept = now;
    return 0;
}

/* ---- files ---- */

static char *grant_name(const char *name, char text[NAME_BYTES])
{
    (void)snprintf(text, NAME_BYTES, "%s" GRANT_SUFFIX, name);
    return text;
}

int own_record_grant(struct error *e, int records_fd, const char *name,
                     const struct own_record *record, const struct attempt_grant *grant,
                     const struct attempt_grant *without_mps)
{
    char file[NAME_BYTES];
    struct str text;
    str_init(&text, GRANT_FILE_MAX);
    int r = own_terms_write(record, &text);
    if (r == 0)
        r = attempt_grant_write(grant, &text);
    if (r == 0 && without_mps)
        r = attempt_grant_write(without_mps, &text);
    if (r < 0)
        error_set(e, ERR_TOO_LARGE, "its grant is too large");
    else
        r = durable_replace(e, records_fd, grant_name(name, file), str_text(&text), text.length);
    str_done(&text);
    return r;
}

static int read_grant(struct error *e, int records_fd, const char *name, struct str *text)
{
    char file[NAME_BYTES];
    return durable_read(e, records_fd, grant_name(name, file), geteuid(), text);
}

/* Where line number `line` of a text begins; its length if there is none. */
static size_t line_offset(const struct str *text, int line)
{
    const char *begin = str_text(text), *at = begin;
    for (; line > 0; line--) {
        const char *end = memchr(at, '\n', text->length - (size_t)(at - begin));
        if (!end)
            return text->length;
        at = end + 1;
    }
    return (size_t)(at - begin);
}

int own_record_open_grant(struct error *e, int records_fd, const char *name, bool without_mps,
                          int *ret_fd)
{
    char file[NAME_BYTES];
    struct str text;
    int fd;
    str_init(&text, GRANT_FILE_MAX);
    int r = read_grant(e, records_fd, name, &text);
    size_t second = line_offset(&text, 1), third = line_offset(&text, 2);
    off_t offset = (off_t)(without_mps && third < text.length ? third : second);
    str_done(&text);
    if (r == 0)
        r = durable_open(e, records_fd, grant_name(name, file), geteuid(), &fd);
    if (r < 0)
        return r;
    if (lseek(fd, offset, SEEK_SET) < 0) {
        close(fd);
        return error_set(e, ERR_IO, "its grant cannot be read");
    }
    *ret_fd = fd;
    return 0;
}

int own_record_save(struct error *e, int records_fd, const char *name,
                    const struct own_record *record, const struct attempt_kept *kept)
{
    struct str text;
    str_init(&text, STATE_FILE_MAX);
    int r = own_state_write(record, kept, &text);
    if (r < 0)
        error_set(e, ERR_TOO_LARGE, "its record is too large");
    else
        r = durable_replace(e, records_fd, name, str_text(&text), text.length);
    str_done(&text);
    return r;
}

int own_record_load(struct error *e, int records_fd, const char *name, struct own_record *record,
                    struct attempt_kept *kept)
{
    struct str text;
    str_init(&text, GRANT_FILE_MAX);
    int r = read_grant(e, records_fd, name, &text);
    bool is_granted = r == 0;
    if (is_granted)
        r = own_terms_parse(e, str_text(&text), line_offset(&text, 1), record);
    str_clear(&text);
    if (r == 0 || r == -ERR_NOT_FOUND) {
        r = durable_read(NULL, records_fd, name, geteuid(), &text);
        if (r == 0)
            r = own_state_parse(e, str_text(&text), text.length, record, kept);
        else if (r == -ERR_NOT_FOUND && is_granted)
            r = 0; /* nothing has become of it yet */
        else
            error_set(e, (enum error_code) - r, "records/%s cannot be read", name);
    }
    str_done(&text);
    return r;
}

void own_record_remove(int records_fd, const char *name)
{
    char file[NAME_BYTES];
    unlinkat(records_fd, grant_name(name, file), 0);
    unlinkat(records_fd, name, 0);
}
