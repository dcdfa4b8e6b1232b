#include "node/attempt/upgrade.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/durable.h"
#include "node/agent_internal.h"

enum { OLD_FILE_MAX = 16384, VERDICT_LINE_MAX = 512, NAME_BYTES = ATTEMPT_NAME_MAX + 16 };

/* Parses one line: the verdict's name, a space, the reason. */
bool upgrade_parse_verdict(const char *text, size_t length, struct attempt_kept *kept)
{
    char line[VERDICT_LINE_MAX];
    enum attempt_verdict verdict;
    if (length == 0 || length >= sizeof line || memchr(text, '\0', length) ||
        memchr(text, '\n', length) != text + length - 1)
        return false;
    memcpy(line, text, length - 1);
    line[length - 1] = '\0';
    char *space = strchr(line, ' ');
    if (!space)
        return false;
    *space = '\0';
    if (attempt_verdict_parse(line, &verdict) < 0 || strlen(space + 1) >= sizeof kept->why)
        return false;
    kept->verdict = verdict;
    return str_copy(kept->why, sizeof kept->why, space + 1);
}

bool upgrade_parse_suspension(const char *text, size_t length, struct own_record *own,
                              struct attempt_kept *kept)
{
    json_int_t bytes, pid, start;
    json_t *processes, *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    /* default: an even older agent wrote no "done", and most moves are */
    int off, turn, done = true;
    bool good = root && json_unpack(root, "{si sb sI so s?b}", "turn", &turn, "off", &off, "bytes",
                                    &bytes, "processes", &processes, "done", &done) == 0;
    size_t count = good ? json_array_size(processes) : 0;
    good = good && count <= CHECKPOINT_PROCESSES_MAX && turn > 0 && bytes >= 0;
    for (size_t i = 0; good && i < count; i++) {
        good = json_unpack(json_array_get(processes, i), "[II]", &pid, &start) == 0;
        if (good)
            own->moved[i] = (struct moved_process){.pid = (pid_t)pid, .start = (uint64_t)start};
    }
    json_decref(root);
    if (!good)
        return false;
    own->moved_count = count;
    own->moved_bytes = (uint64_t)bytes;
    kept->report.turn = turn;
    kept->report.suspension = off ? SUSPENSION_LEAVING : SUSPENSION_RETURNING;
    kept->wants_off = off;
    kept->place = done ? PLACE_HOST : PLACE_UNKNOWN;
    return true;
}

/* Reads the grace period, which only the user's own file has: not beyond the usual one. */
static int64_t read_grace_ms(const struct run *r)
{
    struct str text;
    struct arena arena;
    struct attempt_grant grant = {0};
    str_init(&text, ATTEMPT_FILE_MAX);
    arena_init(&arena, ATTEMPT_FILE_MAX);
    if (durable_read(NULL, r->directory_fd, "grant.json", r->uid, &text) == 0)
        (void)attempt_grant_parse(NULL, &arena, str_text(&text), text.length, &grant);
    int64_t grace_ms = grant.grace_ms < ATTEMPT_GRACE_MS ? grant.grace_ms : ATTEMPT_GRACE_MS;
    arena_done(&arena);
    str_done(&text);
    return grace_ms;
}

/* Reads the verdict; its deadline counts from the time of its file. */
static void take_verdict(struct run *r, int terms_fd, struct attempt_kept *kept)
{
    char name[NAME_BYTES];
    struct str text;
    struct stat st;
    (void)snprintf(name, sizeof name, "%s.verdict", r->name);
    str_init(&text, VERDICT_LINE_MAX);
    if (durable_read(NULL, terms_fd, name, geteuid(), &text) == 0 &&
        upgrade_parse_verdict(str_text(&text), text.length, kept) &&
        fstatat(terms_fd, name, &st, 0) == 0) {
        int64_t age_ms =
            clock_wall_ms() - (st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
        kept->end_by_ms = clock_boot_ms() + r->own.grace_ms - (age_ms > 0 ? age_ms : 0);
    }
    str_done(&text);
}

static int take_old(struct error *e, struct run *r, int terms_fd, struct attempt_kept *kept)
{
    struct str text;
    str_init(&text, OLD_FILE_MAX);
    const struct field_reader reader = {.e = e, .code = ERR_CORRUPT, .form = FIELDS_STORED};
    int result = durable_read(e, terms_fd, r->name, geteuid(), &text);
    if (result == 0)
        result = fields_parse(&reader, &terms_fields, str_text(&text), text.length, &r->own.terms);
    if (result == 0)
        result = terms_check(e, &r->own.terms);
    str_clear(&text);
    r->own.grace_ms = read_grace_ms(r);
    take_verdict(r, terms_fd, kept);
    if (durable_read(NULL, r->agent->suspended_fd, r->name, geteuid(), &text) == 0)
        (void)upgrade_parse_suspension(str_text(&text), text.length, &r->own, kept);
    str_done(&text);
    return result;
}

int upgrade_record(struct error *e, struct run *r, struct attempt_kept *kept)
{
    char name[NAME_BYTES];
    struct agent *a = r->agent;
    const struct attempt_grant none = {.attempt = r->attempt,
                                       /* only a placeholder, because the attempt runs already */
                                       .directory = ""};
    int terms_fd = openat(a->directory_fd, "terms", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (terms_fd < 0)
        return error_set(e, ERR_NOT_FOUND, "there is no record of it");
    int result = take_old(e, r, terms_fd, kept);
    if (result == 0)
        result = own_record_grant(e, a->records_fd, r->name, &r->own, &none, NULL);
    if (result == 0)
        result = own_record_save(e, a->records_fd, r->name, &r->own, kept);
    if (result == 0) {
        (void)snprintf(name, sizeof name, "%s.verdict", r->name);
        unlinkat(terms_fd, name, 0);
        unlinkat(terms_fd, r->name, 0);
        unlinkat(a->suspended_fd, r->name, 0);
    }
    close(terms_fd);
    return result;
}
