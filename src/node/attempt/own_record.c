#include "node/attempt/own_record.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/durable.h"
#include "wire/json_reader.h"
#include "wire/objects.h"

#define GRANT_SUFFIX ".grant"

enum {
    STATE_FILE_MAX = 32 << 10,
    GRANT_FILE_MAX = 2 * ATTEMPT_FILE_MAX + TERMS_FILE_MAX,
    NAME_BYTES = ATTEMPT_NAME_MAX + sizeof GRANT_SUFFIX,
    PID_LARGEST = 1 << 30,
};

#define OF struct own_record
static const struct field granted_members[] = {
    FIELD("grace_ms", grace_ms, .most = WORKLOAD_TIME_MS_MAX),
    FIELD("time_limit_ms", time_limit_ms, .most = WORKLOAD_TIME_MS_MAX, .flags = FIELD_NEWER),
    FIELD("lease_after_ms", lease_after_ms, .flags = FIELD_NEWER),
    FIELD("terms", terms, .fields = &terms_fields),
};
static const struct fields granted_fields = FIELDS(OF, granted_members);
#undef OF

#define OF struct moved_process
static const struct field moved_members[] = {
    FIELD("pid", pid, .least = 1, .most = PID_LARGEST),
    FIELD("start", start),
};
static const struct fields moved_fields = FIELDS(OF, moved_members);
#undef OF

#define OF struct own_record
static const struct field process_members[] = {
    FIELD("without_mps_why", terms.without_mps),
    FIELD("moved_bytes", moved_bytes),
    FIELD_LIST("moved", moved, moved_count, .fields = &moved_fields),
    FIELD("supervisor_pid", supervisor_pid, .most = PID_LARGEST),
    FIELD("supervisor_start", supervisor_start),
    FIELD("boot_id", boot_id, .flags = FIELD_NEWER),
};
static const struct fields process_fields = FIELDS(OF, process_members);
#undef OF

static const char *const place_items[] = {
    [PLACE_DEVICE] = "device", [PLACE_HOST] = "host", [PLACE_UNKNOWN] = "unknown"};
static const struct names place_names = {PLACE_UNKNOWN + 1, place_items};

#define OF struct attempt_kept
static const struct field kept_members[] = {
    FIELD("report", report, .fields = &attempt_report_fields),
    FIELD("verdict", verdict, .names = &attempt_verdict_names),
    FIELD("why", why),
    FIELD("end_by_ms", end_by_ms, .least = INT64_MIN, .most = INT64_MAX),
    FIELD("limit_at_ms", limit_at_ms, .flags = FIELD_NEWER),
    FIELD("without_mps", without_mps),
    FIELD("wants_off", wants_off),
    FIELD("place", place, .names = &place_names),
    FIELD("advice_sequence", advice.sequence, .flags = FIELD_NEWER),
    FIELD("advice_batch", advice.batch, .most = ADVICE_BATCH_MAX, .flags = FIELD_NEWER),
    FIELD("advice_checkpoints", advice.checkpoints, .flags = FIELD_NEWER),
};
static const struct fields kept_fields = FIELDS(OF, kept_members);
#undef OF

int own_terms_write(const struct own_record *record, struct str *out)
{
    (void)fields_write(&granted_fields, FIELDS_STORED, record, out);
    str_append_char(out, '\n');
    return str_failed(out) ? -ERR_TOO_LARGE : 0;
}

int own_terms_parse(struct error *e, const char *text, size_t length, struct own_record *ret)
{
    const struct field_reader r = {.e = e, .code = ERR_CORRUPT, .form = FIELDS_STORED};
    struct own_record record;
    int result = fields_parse(&r, &granted_fields, text, length, &record);
    if (result == 0)
        result = terms_check(e, &record.terms);
    if (result == 0)
        *ret = record;
    return result;
}

int own_state_write(const struct own_record *record, const struct attempt_kept *kept,
                    struct str *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    fields_put_members(&w, &kept_fields, FIELDS_STORED, kept);
    fields_put_members(&w, &process_fields, FIELDS_STORED, record);
    json_end_object(&w);
    str_append_char(out, '\n');
    return str_failed(out) ? -ERR_TOO_LARGE : 0;
}

int own_state_parse(struct error *e, const char *text, size_t length, struct own_record *record,
                    struct attempt_kept *kept)
{
    const struct field_reader r = {.e = e, .code = ERR_CORRUPT, .form = FIELDS_STORED};
    struct own_record changed = *record;
    struct attempt_kept now = {0};
    json_t *root;
    int result = json_parse_object(e, ERR_CORRUPT, text, length, &root);
    if (result < 0)
        return result;
    result = fields_take(&r, &kept_fields, root, &now);
    if (result == 0)
        result = fields_take(&r, &process_fields, root, &changed);
    json_decref(root);
    if (result < 0)
        return result;
    char why[TERMS_WHY_MAX];
    str_copy(why, sizeof why, changed.terms.without_mps);
    if (now.without_mps)
        terms_lose_mps(&changed.terms, why);
    now.report.workload = kept->report.workload; /* from the name of the file */
    now.report.attempt = kept->report.attempt;
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

/* Returns the offset of line number `line`, or the text's length if there is no such line. */
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
            r = 0; /* no change since the grant */
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
