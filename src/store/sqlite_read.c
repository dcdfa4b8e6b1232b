/*
 * Reading. A list is answered in two steps within one snapshot: the ids, from an index with exactly
 * the requested rows, then the rows. So the cost of a page depends only on the rows that it shows.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/sqlite_internal.h"

#define ROW                                                                                        \
    "w.id, w.group_id, w.first_id, w.submitted, w.spec_id, w.uid, w.user, w.name, w.base, w.key,"  \
    " w.array_index, w.kind, w.priority, w.state, w.submitted_wall_ms, w.ended_wall_ms, w.after, "
/* columns of ROW with status and spec */
enum { COLUMN_SPEC_ID = 4, COLUMN_STATE = 13, COLUMN_SPEC = 18 };
#define EVENT "revision, wall_ms, workload, attempt, uid, node, what, text"

static const char *const reader_sql[READER_STATEMENT_END] = {
    [READER_BEGIN] = "BEGIN",
    [READER_END] = "COMMIT",
    [READER_LIST_ALL] = "SELECT id FROM workloads WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    [READER_LIST_STATE] = "SELECT id FROM workloads INDEXED BY workloads_by_state"
                          " WHERE state = ?3 AND kind = ?4 AND id < ?1 ORDER BY id DESC LIMIT ?2",
    [READER_LIST_USER] = "SELECT id FROM workloads INDEXED BY workloads_by_user"
                         " WHERE uid = ?5 AND state = ?3 AND kind = ?4 AND id < ?1"
                         " AND (?6 IS NULL OR user = ?6)"
                         " ORDER BY id DESC LIMIT ?2",
    [READER_LIST_BASE] =
        "SELECT id FROM workloads INDEXED BY workloads_by_base"
        " WHERE base = ?3 AND id < ?1 AND (?4 = base OR ?4 = name)"
        " AND (?5 = 0 OR (?5 >> state) & 1) AND (?6 < 0 OR kind = ?6)"
        " AND (?7 < 0 OR uid = ?7) AND (?8 IS NULL OR user = ?8) ORDER BY id DESC LIMIT ?2",
    [READER_GET] = "SELECT " ROW "w.status, ifnull(s.json, '') FROM workloads w"
                   " LEFT JOIN specs s ON s.id = w.spec_id WHERE w.id = ?1",
    [READER_ROW] = "SELECT " ROW "w.status FROM workloads w WHERE w.id = ?1",
    [READER_SPEC] = "SELECT json FROM specs WHERE id = ?1",
    [READER_SUMMARY] = "SELECT CASE WHEN summary IS NULL OR ?2 THEN json END, summary FROM specs"
                       " WHERE id = ?1",
    [READER_NEWEST] = "SELECT id, group_id, name FROM workloads INDEXED BY workloads_by_base"
                      " WHERE base = ?1 AND (?2 = base OR ?2 = name) ORDER BY id DESC LIMIT 1",
    [READER_NEWEST_OF_USER] =
        "SELECT id, group_id, name FROM workloads INDEXED BY workloads_by_base"
        " WHERE base = ?1 AND (?2 = base OR ?2 = name) AND uid = ?3"
        " AND (?4 IS NULL OR user = ?4)"
        " ORDER BY id DESC LIMIT 1",
    [READER_GROUP] = "SELECT id FROM workloads INDEXED BY workloads_by_base"
                     " WHERE base = ?1 AND id BETWEEN ?2 AND ?3 AND group_id = ?2"
                     " ORDER BY id LIMIT ?4",
    [READER_LOAD] = "SELECT " ROW "CASE WHEN w.state NOT BETWEEN ?1 AND ?2 THEN w.status END,"
                    " CASE WHEN w.state NOT BETWEEN ?1 AND ?2 THEN"
                    " ifnull((SELECT json FROM specs WHERE id = w.spec_id), '') END"
                    " FROM workloads w NOT INDEXED ORDER BY w.id",
    [READER_LAST_ID] = "SELECT max(value, ifnull((SELECT max(id) FROM workloads), 0))"
                       " FROM meta WHERE key = 'last_id'",
    [READER_NODES] = "SELECT name, drained, json FROM nodes ORDER BY name",
    [READER_TOKENS] = "SELECT id, hash, role, account, creator, created_wall_ms, expires_wall_ms"
                      " FROM tokens ORDER BY id",
    [READER_LAST_TOKEN] =
        "SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'tokens'), 0)",
    [READER_EVENTS] = "SELECT " EVENT " FROM events WHERE revision > ?1 ORDER BY revision LIMIT ?2",
    [READER_EVENTS_OF_WORKLOAD] = "SELECT " EVENT " FROM events INDEXED BY events_by_workload"
                                  " WHERE workload = ?3 AND workload <> 0 AND revision > ?1"
                                  " ORDER BY revision LIMIT ?2",
    [READER_FLOOR] = "SELECT value FROM meta WHERE key = 'events_floor'",
    [READER_REVISION] = "SELECT max(value, ifnull((SELECT max(revision) FROM events), 0))"
                        " FROM meta WHERE key = 'events_floor'",
};

int sqlite_prepare_reader(struct error *e, struct sqlite_store *s)
{
    for (int i = 0; i < READER_STATEMENT_END; i++) {
        int code = sqlite3_prepare_v3(s->reader, reader_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &s->read[i], NULL);
        if (code != SQLITE_OK)
            return sqlite_error(e, s, s->reader, code, "opening the state");
    }
    return 0;
}

static int failed(struct error *e, struct sqlite_store *s, int code)
{
    return sqlite_error(e, s, s->reader, code, "reading the state");
}

/* Binding an integer or a static string to a prepared and reset statement cannot fail. */
static void bind_integer(sqlite3_stmt *statement, int at, int64_t value)
{
    (void)sqlite3_bind_int64(statement, at, value);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    (void)sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

/* Returns the uid of an owner, or -1 for NULL, which means any owner. */
static int64_t owner_uid(const struct store_owner *owner)
{
    return owner ? (int64_t)owner->uid : -1;
}

static const char *owner_name(const struct store_owner *owner)
{
    return owner && owner->uid == UID_BY_NAME ? owner->user : NULL;
}

static const char *column_text(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}

static const char *column_word(sqlite3_stmt *statement, int column)
{
    const char *text = column_text(statement, column);
    return text ? text : "";
}

static uint64_t column_id(sqlite3_stmt *statement, int column)
{
    return (uint64_t)sqlite3_column_int64(statement, column);
}

/* ---- snapshots ---- */

static int snapshot_begin(struct error *e, struct sqlite_store *s)
{
    int code = sqlite3_step(s->read[READER_BEGIN]);
    sqlite3_reset(s->read[READER_BEGIN]);
    return code == SQLITE_DONE ? 0 : failed(e, s, code);
}

static void snapshot_end(struct sqlite_store *s)
{
    (void)sqlite3_step(s->read[READER_END]);
    sqlite3_reset(s->read[READER_END]);
}

/* Reads one row with one integer. */
static int read_integer(struct error *e, struct sqlite_store *s, enum reader_statement which,
                        uint64_t *ret)
{
    int code = sqlite3_step(s->read[which]);
    uint64_t value = code == SQLITE_ROW ? column_id(s->read[which], 0) : 0;
    sqlite3_reset(s->read[which]);
    if (code != SQLITE_ROW)
        return failed(e, s, code == SQLITE_DONE ? SQLITE_CORRUPT : code);
    *ret = value;
    return 0;
}

int sqlite_read_revision(struct error *e, struct sqlite_store *s, uint64_t *ret)
{
    return read_integer(e, s, READER_REVISION, ret);
}

/* ---- workloads ---- */

static int hand_out(sqlite3_stmt *q, const char *spec, const char *summary, store_workload_fn fn,
                    void *arg)
{
    struct store_workload w = {
        .id = column_id(q, 0),
        .group = column_id(q, 1),
        .first = column_id(q, 2),
        .submitted = column_id(q, 3),
        .spec_id = column_id(q, COLUMN_SPEC_ID),
        .uid = (uint32_t)column_id(q, 5),
        .user = column_word(q, 6),
        .name = column_word(q, 7),
        .base = column_word(q, 8),
        .key = column_text(q, 9),
        .array_index = sqlite3_column_int(q, 10),
        .kind = (enum workload_kind)sqlite3_column_int(q, 11),
        .priority = sqlite3_column_int(q, 12),
        .state = (enum workload_state)sqlite3_column_int(q, COLUMN_STATE),
        .submitted_wall_ms = sqlite3_column_int64(q, 14),
        .ended_wall_ms = sqlite3_column_int64(q, 15),
        .after = column_word(q, 16),
        .status = column_text(q, 17),
        .spec = spec,
        .summary = summary,
    };
    return fn(arg, &w);
}

/* Passes one row to fn; *ret_found says whether there was one. */
static int read_row(struct error *e, struct sqlite_store *s, uint64_t id, store_workload_fn fn,
                    void *arg, bool *ret_found)
{
    sqlite3_stmt *q = s->read[READER_GET];
    bind_integer(q, 1, (int64_t)id);
    int code = sqlite3_step(q), r = 0;
    *ret_found = code == SQLITE_ROW;
    if (code == SQLITE_ROW)
        r = hand_out(q, column_text(q, COLUMN_SPEC), NULL, fn, arg);
    else if (code != SQLITE_DONE)
        r = failed(e, s, code);
    sqlite3_reset(q);
    return r;
}

int sqlite_get(struct error *e, struct store *base, uint64_t id, store_workload_fn fn, void *arg)
{
    struct sqlite_store *s = sqlite_of(base);
    bool found;
    int r = read_row(e, s, id, fn, arg, &found);
    return r == 0 && !found ? store_error_no_workload(e, id) : r;
}

struct id_list {
    size_t count;
    uint64_t ids[WORKLOAD_STATE_END * WORKLOAD_KIND_END * STORE_PAGE_MAX];
};

static int read_ids(struct error *e, struct sqlite_store *s, sqlite3_stmt *q,
                    const struct store_filter *f, struct id_list *list)
{
    bind_integer(q, 1, f->before && f->before < INT64_MAX ? (int64_t)f->before : INT64_MAX);
    bind_integer(q, 2, (int64_t)f->limit);
    int code;
    while ((code = sqlite3_step(q)) == SQLITE_ROW)
        list->ids[list->count++] = column_id(q, 0);
    sqlite3_reset(q);
    return code == SQLITE_DONE ? 0 : failed(e, s, code);
}

/* Reads the ids of one user or of all: one exact range of an index for each state and kind. */
static int read_ids_by_state(struct error *e, struct sqlite_store *s, const struct store_filter *f,
                             struct id_list *list)
{
    sqlite3_stmt *q = s->read[f->owner ? READER_LIST_USER : READER_LIST_STATE];
    if (f->owner) {
        bind_integer(q, 5, owner_uid(f->owner));
        bind_text(q, 6, owner_name(f->owner));
    }
    for (int state = 0; state < WORKLOAD_STATE_END; state++) {
        if (f->states && !(f->states & (1u << state)))
            continue;
        for (int kind = 0; kind < WORKLOAD_KIND_END; kind++) {
            if (f->kind >= 0 && f->kind != kind)
                continue;
            bind_integer(q, 3, state);
            bind_integer(q, 4, kind);
            int r = read_ids(e, s, q, f, list);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* Returns the base name, by which the index of names is sorted: "sweep" for "sweep[3]". */
static bool base_of(const char *name, char base[WORKLOAD_NAME_MAX])
{
    if (!str_copy(base, WORKLOAD_NAME_MAX, name))
        return false; /* longer than any name */
    char *bracket = strchr(base, '[');
    if (bracket)
        *bracket = '\0';
    return true;
}

static int read_ids_by_name(struct error *e, struct sqlite_store *s, const struct store_filter *f,
                            struct id_list *list)
{
    char base[WORKLOAD_NAME_MAX];
    if (!base_of(f->name, base))
        return 0;
    sqlite3_stmt *q = s->read[READER_LIST_BASE];
    bind_text(q, 3, base);
    bind_text(q, 4, f->name);
    bind_integer(q, 5, f->states);
    bind_integer(q, 6, f->kind);
    bind_integer(q, 7, owner_uid(f->owner));
    bind_text(q, 8, owner_name(f->owner));
    int r = read_ids(e, s, q, f, list);
    sqlite3_clear_bindings(q);
    return r;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* The spec of the current row. `q` keeps the spec until another is read, because the elements of an
 * array share a spec, which may be long. */
struct held_spec {
    sqlite3_stmt *q;
    uint64_t id; /* 0: none */
    bool is_starting;
};

static int hold_spec(struct error *e, struct sqlite_store *s, struct held_spec *held, uint64_t id,
                     bool is_starting)
{
    if (held->id == id && held->is_starting == is_starting)
        return 0;
    sqlite3_reset(held->q);
    bind_integer(held->q, 1, (int64_t)id);
    if (held->q == s->read[READER_SUMMARY])
        bind_integer(held->q, 2, is_starting);
    held->id = 0;
    int code = sqlite3_step(held->q);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return failed(e, s, code);
    held->id = id;
    held->is_starting = is_starting;
    return 0;
}

static int read_rows(struct error *e, struct sqlite_store *s, const struct store_filter *f,
                     const uint64_t *ids, size_t count, store_workload_fn fn, void *arg)
{
    sqlite3_stmt *q = s->read[READER_ROW];
    struct held_spec held = {.q = s->read[f->summaries ? READER_SUMMARY : READER_SPEC]};
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        bind_integer(q, 1, (int64_t)ids[i]);
        int code = sqlite3_step(q);
        if (code == SQLITE_ROW)
            r = hold_spec(e, s, &held, column_id(q, COLUMN_SPEC_ID),
                          sqlite3_column_int(q, COLUMN_STATE) == WORKLOAD_STARTING);
        else if (code != SQLITE_DONE)
            r = failed(e, s, code);
        if (r == 0 && code == SQLITE_ROW) {
            const char *summary = f->summaries ? column_text(held.q, 1) : NULL;
            const char *spec = column_text(held.q, 0);
            r = hand_out(q, spec || summary ? spec : "", summary, fn, arg);
        }
        sqlite3_reset(q);
    }
    sqlite3_reset(held.q);
    return r;
}

static int list_within_snapshot(struct error *e, struct sqlite_store *s,
                                const struct store_filter *f, struct id_list *list,
                                store_workload_fn fn, void *arg)
{
    int r;
    if (f->name)
        r = read_ids_by_name(e, s, f, list);
    else if (f->states || f->kind >= 0 || f->owner)
        r = read_ids_by_state(e, s, f, list);
    else
        r = read_ids(e, s, s->read[READER_LIST_ALL], f, list);
    if (r < 0)
        return r;
    qsort(list->ids, list->count, sizeof list->ids[0], newest_first);
    return read_rows(e, s, f, list->ids, list->count < f->limit ? list->count : f->limit, fn, arg);
}

int sqlite_list(struct error *e, struct store *base, const struct store_filter *filter,
                store_workload_fn fn, void *arg)
{
    struct sqlite_store *s = sqlite_of(base);
    struct id_list *list = malloc(sizeof *list);
    if (!list)
        return error_set(e, ERR_NO_MEMORY, "no memory to list workloads");
    list->count = 0;
    int r = snapshot_begin(e, s);
    if (r == 0) {
        r = list_within_snapshot(e, s, filter, list, fn, arg);
        snapshot_end(s);
    }
    free(list);
    return r;
}

static int read_group(struct error *e, struct sqlite_store *s, const char *base, uint64_t group,
                      uint64_t *ret_ids, size_t room)
{
    sqlite3_stmt *q = s->read[READER_GROUP];
    bind_text(q, 1, base);
    bind_integer(q, 2, (int64_t)group);
    bind_integer(q, 3, (int64_t)group + WORKLOAD_ARRAY_MAX - 1);
    bind_integer(q, 4, (int64_t)room);
    int code, count = 0;
    while ((code = sqlite3_step(q)) == SQLITE_ROW)
        ret_ids[count++] = column_id(q, 0);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return code == SQLITE_DONE ? count : failed(e, s, code);
}

static int resolve_within_snapshot(struct error *e, struct sqlite_store *s, sqlite3_stmt *q,
                                   const char *base, const char *name, uint64_t *ret_ids,
                                   size_t room)
{
    int code = sqlite3_step(q);
    if (code == SQLITE_DONE)
        return 0;
    if (code != SQLITE_ROW)
        return failed(e, s, code);
    if (!str_equal(column_text(q, 2), name))
        return read_group(e, s, base, column_id(q, 1), ret_ids, room);
    ret_ids[0] = column_id(q, 0);
    return 1;
}

int sqlite_resolve(struct error *e, struct store *store, const struct store_owner *owner,
                   const char *name, uint64_t *ret_ids, size_t room)
{
    struct sqlite_store *s = sqlite_of(store);
    char base[WORKLOAD_NAME_MAX];
    if (room == 0 || !base_of(name, base))
        return 0;
    int r = snapshot_begin(e, s);
    if (r < 0)
        return r;
    sqlite3_stmt *q = s->read[owner ? READER_NEWEST_OF_USER : READER_NEWEST];
    bind_text(q, 1, base);
    bind_text(q, 2, name);
    if (owner) {
        bind_integer(q, 3, owner_uid(owner));
        bind_text(q, 4, owner_name(owner));
    }
    r = resolve_within_snapshot(e, s, q, base, name, ret_ids, room);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    snapshot_end(s);
    return r;
}

/* ---- everything ---- */

int sqlite_nodes(struct error *e, struct store *base, store_node_fn fn, void *arg)
{
    struct sqlite_store *s = sqlite_of(base);
    sqlite3_stmt *q = s->read[READER_NODES];
    int code, r = 0;
    while (r == 0 && (code = sqlite3_step(q)) != SQLITE_DONE)
        r = code == SQLITE_ROW
                ? fn(arg, column_word(q, 0), sqlite3_column_int(q, 1) != 0, column_word(q, 2))
                : failed(e, s, code);
    sqlite3_reset(q);
    return r;
}

static int tokens_within_snapshot(struct error *e, struct sqlite_store *s, store_token_fn fn,
                                  void *arg)
{
    sqlite3_stmt *q = s->read[READER_TOKENS];
    int code, r = 0;
    while (r == 0 && (code = sqlite3_step(q)) != SQLITE_DONE) {
        struct store_token token = {
            .id = column_id(q, 0),
            .hash = column_word(q, 1),
            .role = column_word(q, 2),
            .account = column_word(q, 3),
            .creator = column_word(q, 4),
            .created_wall_ms = sqlite3_column_int64(q, 5),
            .expires_wall_ms = sqlite3_column_int64(q, 6),
        };
        r = code == SQLITE_ROW ? fn(arg, &token) : failed(e, s, code);
    }
    sqlite3_reset(q);
    return r;
}

int sqlite_tokens(struct error *e, struct store *base, store_token_fn fn, void *arg,
                  uint64_t *ret_last_id)
{
    struct sqlite_store *s = sqlite_of(base);
    uint64_t last_id = 0;
    int r = snapshot_begin(e, s);
    if (r < 0)
        return r;
    r = tokens_within_snapshot(e, s, fn, arg);
    if (r == 0)
        r = read_integer(e, s, READER_LAST_TOKEN, &last_id);
    snapshot_end(s);
    if (r == 0)
        *ret_last_id = last_id;
    return r;
}

static int load_workloads(struct error *e, struct sqlite_store *s, store_workload_fn fn, void *arg)
{
    sqlite3_stmt *q = s->read[READER_LOAD];
    bind_integer(q, 1, WORKLOAD_SUCCEEDED); /* the first and the last terminal state */
    bind_integer(q, 2, WORKLOAD_CANCELLED);
    int code, r = 0;
    while (r == 0 && (code = sqlite3_step(q)) != SQLITE_DONE)
        r = code == SQLITE_ROW ? hand_out(q, column_text(q, COLUMN_SPEC), NULL, fn, arg)
                               : failed(e, s, code);
    sqlite3_reset(q);
    return r;
}

int sqlite_load(struct error *e, struct store *base, store_node_fn node_fn,
                store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id)
{
    struct sqlite_store *s = sqlite_of(base);
    uint64_t last_id = 0;
    int r = snapshot_begin(e, s);
    if (r < 0)
        return r;
    r = sqlite_nodes(e, base, node_fn, arg);
    if (r == 0)
        r = load_workloads(e, s, workload_fn, arg);
    if (r == 0)
        r = read_integer(e, s, READER_LAST_ID, &last_id);
    snapshot_end(s);
    if (r == 0)
        *ret_last_id = last_id;
    return r;
}

/* ---- events ---- */

static int events_within_snapshot(struct error *e, struct sqlite_store *s, uint64_t since,
                                  uint64_t workload, size_t limit, store_event_fn fn, void *arg)
{
    uint64_t floor;
    int r = read_integer(e, s, READER_FLOOR, &floor);
    if (r < 0)
        return r;
    if (since < floor)
        return store_error_events_gone(e, since, floor);
    sqlite3_stmt *q = s->read[workload ? READER_EVENTS_OF_WORKLOAD : READER_EVENTS];
    bind_integer(q, 1, since < INT64_MAX ? (int64_t)since : INT64_MAX);
    bind_integer(q, 2, limit < INT64_MAX ? (int64_t)limit : INT64_MAX);
    if (workload)
        bind_integer(q, 3, workload < INT64_MAX ? (int64_t)workload : INT64_MAX);
    int code;
    while (r == 0 && (code = sqlite3_step(q)) != SQLITE_DONE) {
        struct store_event event = {
            .revision = column_id(q, 0),
            .wall_ms = sqlite3_column_int64(q, 1),
            .workload = column_id(q, 2),
            .attempt = sqlite3_column_int(q, 3),
            .uid = (uint32_t)column_id(q, COLUMN_SPEC_ID),
            .node = column_word(q, 5),
            .what = column_word(q, 6),
            .text = column_word(q, 7),
        };
        r = code == SQLITE_ROW ? fn(arg, &event) : failed(e, s, code);
    }
    sqlite3_reset(q);
    return r;
}

int sqlite_events(struct error *e, struct store *base, uint64_t since, uint64_t workload,
                  size_t limit, store_event_fn fn, void *arg)
{
    struct sqlite_store *s = sqlite_of(base);
    int r = snapshot_begin(e, s);
    if (r < 0)
        return r;
    r = events_within_snapshot(e, s, since, workload, limit, fn, arg);
    snapshot_end(s);
    return r;
}

/* ---- checking ---- */

/* Each query returns a sentence for each violation of its rule, and nothing for a sound state. The
 * first is SQLite's own check. */
static const char *const checks[] = {
    "SELECT integrity_check FROM pragma_integrity_check(10) WHERE integrity_check <> 'ok'",
    "SELECT 'workload ' || id || ' has no spec' FROM workloads"
    " WHERE NOT EXISTS (SELECT 1 FROM specs WHERE specs.id = spec_id)",
    "SELECT 'the status of workload ' || id || ' is not JSON' FROM workloads"
    " WHERE NOT json_valid(status)",
    "SELECT 'what workload ' || id || ' waits for is not JSON' FROM workloads"
    " WHERE NOT json_valid(after)",
    "SELECT 'spec ' || id || ' is not JSON' FROM specs WHERE NOT json_valid(json)",
    "SELECT 'the summary of spec ' || id || ' is not JSON' FROM specs"
    " WHERE NOT json_valid(ifnull(summary, '{}'))",
    "SELECT 'node ' || name || ' is not JSON' FROM nodes WHERE NOT json_valid(json)",
};

static int run_check(struct error *e, struct sqlite_store *s, const char *sql)
{
    sqlite3_stmt *q;
    int code = sqlite3_prepare_v2(s->reader, sql, -1, &q, NULL);
    if (code != SQLITE_OK)
        return failed(e, s, code);
    code = sqlite3_step(q);
    int r = 0;
    if (code == SQLITE_ROW)
        r = error_set(e, ERR_CORRUPT, "%s: %s", s->path, column_word(q, 0));
    else if (code != SQLITE_DONE)
        r = failed(e, s, code);
    sqlite3_finalize(q);
    return r;
}

int sqlite_check_integrity(struct error *e, struct sqlite_store *s)
{
    return run_check(e, s, checks[0]);
}

int sqlite_check(struct error *e, struct store *base)
{
    struct sqlite_store *s = sqlite_of(base);
    int r = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && r == 0; i++)
        r = run_check(e, s, checks[i]);
    return r;
}
