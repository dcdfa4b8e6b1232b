#include "store/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { TEXT_MAX_BYTES = 64 << 20 };

char *fixture_directory(void)
{
    char *directory = strdup("/tmp/gpumux-store-XXXXXX");
    return directory ? mkdtemp(directory) : NULL;
}

void fixture_remove(char *directory)
{
    DIR *d = opendir(directory);
    for (struct dirent *entry; d && (entry = readdir(d));)
        (void)unlinkat(dirfd(d), entry->d_name, 0);
    if (d)
        closedir(d);
    (void)rmdir(directory);
    free(directory);
}

int fixture_submit(struct store_batch *b, uint64_t first, int count, uint32_t uid, const char *base)
{
    char spec[256], summary[64], name[WORKLOAD_NAME_MAX], key[32];
    snprintf(spec, sizeof spec, "{\"name\":\"%s\",\"command\":[\"true\",\"%" PRIu64 "\"]}", base,
             first);
    snprintf(key, sizeof key, "key-%" PRIu64, first);
    snprintf(summary, sizeof summary, "{\"command\":\"true %" PRIu64 "\"}", first);
    /* Some specs lack a summary, as those of an older gpumux do. */
    int r = store_batch_spec(b, first, spec, first % 3 ? summary : NULL);
    int elements = count > 0 ? count : 1;
    for (int i = 0; i < elements && r == 0; i++) {
        struct store_workload row = {
            .id = first + (uint64_t)i,
            .group = first,
            .first = first,
            .submitted = (size_t)elements,
            .spec_id = first,
            .uid = uid,
            .user = uid ? "somebody" : "root",
            .base = base,
            .name = count > 0 ? name : base,
            .key = first % 2 ? key : NULL,
            .array_index = count > 0 ? i : -1,
            .kind = first % 5 ? WORKLOAD_TASK : WORKLOAD_SERVICE,
            .priority = (int)(first % 7) - 3,
            .state = WORKLOAD_QUEUED,
            .submitted_wall_ms = 1700000000000 + (int64_t)first,
            .after = first > 3 ? "[[1,true]]" : "[]",
            .status = "{\"state\":\"queued\"}",
        };
        snprintf(name, sizeof name, "%.100s[%d]", base, i);
        r = store_batch_workload(b, &row);
    }
    return r;
}

int fixture_event(struct store_batch *b, uint64_t workload, const char *what)
{
    struct store_event event = {.wall_ms = 1700000000000,
                                .workload = workload,
                                .attempt = (int)(workload % 3),
                                .uid = 7,
                                .node = workload % 2 ? "box" : "",
                                .what = what,
                                .text = "because"};
    return store_batch_event(b, &event);
}

int fixture_dump_workload(void *str, const struct store_workload *w)
{
    str_printf(str,
               "%" PRIu64 " %" PRIu64 " %" PRIu64 " %zu %" PRIu64 " %u %s %s %s %s %d %d %d %d"
               " %" PRId64 " %" PRId64 " %s %s %s %s\n",
               w->id, w->group, w->first, w->submitted, w->spec_id, w->uid, w->user, w->name,
               w->base, w->key ? w->key : "-", w->array_index, (int)w->kind, w->priority,
               (int)w->state, w->submitted_wall_ms, w->ended_wall_ms, w->after,
               w->status ? w->status : "-", w->spec ? w->spec : "-", w->summary ? w->summary : "-");
    return 0;
}

int fixture_dump_event(void *str, const struct store_event *event)
{
    str_printf(str, "%" PRIu64 " %" PRId64 " %" PRIu64 " %d %u %s %s %s\n", event->revision,
               event->wall_ms, event->workload, event->attempt, event->uid, event->node,
               event->what, event->text);
    return 0;
}

int fixture_dump_node(void *str, const char *name, bool drained, const char *json)
{
    str_printf(str, "%s %d %s\n", name, drained, json);
    return 0;
}

void fixture_dump(struct store *s, struct str *out)
{
    uint64_t last_id = 0;
    struct error e = {0};
    int r = store_load(&e, s, fixture_dump_node, fixture_dump_workload, out, &last_id);
    str_printf(out, "load %d last %" PRIu64 "\n", r, last_id);
    r = store_nodes(&e, s, fixture_dump_node, out);
    str_printf(out, "nodes %d\n", r);
    struct store_filter all = {.kind = -1, .limit = STORE_PAGE_MAX};
    r = store_list(&e, s, &all, fixture_dump_workload, out);
    str_printf(out, "list %d\n", r);
    r = store_events(&e, s, 0, 0, STORE_PAGE_MAX, fixture_dump_event, out);
    str_printf(out, "events %d revision %" PRIu64 " %s\n", r, store_revision(s),
               r < 0 ? e.text : "");
}

struct store *fixture_open(const char *directory)
{
    struct error e = {0};
    struct store *s = NULL;
    if (store_open_sqlite(&e, directory, &s) < 0)
        fail_msg("open: %s", e.text);
    return s;
}

void fixture_submit_one(struct store *s, uint64_t id)
{
    struct store_batch *b = store_batch_new();
    struct error e = {0};
    assert_int_equal(fixture_submit(b, id, 0, 10, "one"), 0);
    assert_int_equal(fixture_event(b, id, "submitted"), 0);
    if (store_commit(&e, s, b) < 0)
        fail_msg("commit: %s", e.text);
    store_batch_free(b);
}

void fixture_path(char path[256], const char *directory, const char *name)
{
    assert_true(snprintf(path, 256, "%s/%s", directory, name) < 256);
}

void fixture_execute(const char *directory, const char *sql)
{
    char path[256];
    sqlite3 *db;
    fixture_path(path, directory, "gpumux.db");
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

char *fixture_text(struct store *s)
{
    struct str text;
    str_init(&text, TEXT_MAX_BYTES);
    fixture_dump(s, &text);
    assert_false(str_failed(&text));
    char *copy = strdup(str_text(&text));
    str_done(&text);
    assert_non_null(copy);
    return copy;
}

void fixture_limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}
