/* Writing: one transaction for each batch, synced once. */
#include <assert.h>

#include "store/sqlite_internal.h"

static const char *const writer_sql[WRITER_STATEMENT_END] = {
    [WRITER_BEGIN] = "BEGIN IMMEDIATE",
    [WRITER_COMMIT] = "COMMIT",
    [WRITER_ROLLBACK] = "ROLLBACK",
    [WRITER_SPEC] = "INSERT INTO specs (id, summary, json) VALUES (?1, ?2, ?3)",
    [WRITER_WORKLOAD] =
        "INSERT INTO workloads (id, group_id, first_id, submitted, spec_id, uid, user, name, base,"
        " key, array_index, kind, priority, state, submitted_wall_ms, ended_wall_ms, after, status)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
    [WRITER_STATUS] =
        "UPDATE workloads SET state = ?2, ended_wall_ms = ?3, status = ?4 WHERE id = ?1",
    [WRITER_DELETE_SPEC] =
        "DELETE FROM specs WHERE id = (SELECT spec_id FROM workloads WHERE id = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM workloads w WHERE w.spec_id = specs.id AND w.id <> ?1)",
    [WRITER_DELETE_LAST_ID] = "UPDATE meta SET value = ?1 WHERE key = 'last_id' AND value < ?1"
                              " AND ?1 = (SELECT max(id) FROM workloads)",
    [WRITER_DELETE] = "DELETE FROM workloads WHERE id = ?1",
    [WRITER_NODE] = "INSERT INTO nodes (name, drained, json) VALUES (?1, ?2, ?3)"
                    " ON CONFLICT (name) DO UPDATE SET drained = ?2, json = ?3",
    [WRITER_TOKEN] =
        "INSERT INTO tokens (id, hash, role, account, creator, created_wall_ms, expires_wall_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [WRITER_DELETE_TOKEN] = "DELETE FROM tokens WHERE id = ?1",
    [WRITER_EVENT] =
        "INSERT INTO events (revision, wall_ms, workload, attempt, uid, node, what, text)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [WRITER_TRIM] = "DELETE FROM events WHERE revision <= ?1",
    [WRITER_TRIM_FLOOR] = "UPDATE meta SET value = ?1 WHERE key = 'events_floor' AND value < ?1",
};

int sqlite_prepare_writer(struct error *e, struct sqlite_store *s)
{
    for (int i = 0; i < WRITER_STATEMENT_END; i++) {
        int code = sqlite3_prepare_v3(s->writer, writer_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &s->write[i], NULL);
        if (code != SQLITE_OK)
            return sqlite_error(e, s, s->writer, code, "opening the state");
    }
    return 0;
}

/* ---- binding: parameters of a statement in their order ---- */

struct binder {
    sqlite3_stmt *statement;
    int next;
    int code; /* first error */
};

static void bound(struct binder *b, int code)
{
    if (b->code == SQLITE_OK)
        b->code = code;
}

static void bind_integer(struct binder *b, int64_t value)
{
    bound(b, sqlite3_bind_int64(b->statement, ++b->next, value));
}

static void bind_id(struct binder *b, uint64_t value)
{
    assert(value <= INT64_MAX);
    bind_integer(b, (int64_t)value);
}

/* The text belongs to the batch, which outlives the step. */
static void bind_text(struct binder *b, const char *text)
{
    bound(b, sqlite3_bind_text(b->statement, ++b->next, text, -1, SQLITE_STATIC));
}

static int step(struct sqlite_store *s, enum writer_statement which, int bind_code)
{
    sqlite3_stmt *statement = s->write[which];
    int code = bind_code;
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    /* reset repeats the code of a failed step, in its precise form */
    int reset_code = sqlite3_reset(statement);
    if (code == SQLITE_DONE || code == SQLITE_ROW)
        return SQLITE_OK;
    return reset_code != SQLITE_OK ? reset_code : code;
}

static int run(struct sqlite_store *s, enum writer_statement which)
{
    return step(s, which, SQLITE_OK);
}

static int run_id(struct sqlite_store *s, enum writer_statement which, uint64_t id)
{
    struct binder b = {.statement = s->write[which]};
    bind_id(&b, id);
    return step(s, which, b.code);
}

/* ---- operations ---- */

static int write_spec(struct sqlite_store *s, const struct store_op *op)
{
    struct binder b = {.statement = s->write[WRITER_SPEC]};
    bind_id(&b, op->spec.id);
    bind_text(&b, op->spec.summary);
    bind_text(&b, op->spec.json);
    return step(s, WRITER_SPEC, b.code);
}

static int write_workload(struct sqlite_store *s, const struct store_workload *w)
{
    struct binder b = {.statement = s->write[WRITER_WORKLOAD]};
    bind_id(&b, w->id);
    bind_id(&b, w->group);
    bind_id(&b, w->first);
    bind_id(&b, w->submitted);
    bind_id(&b, w->spec_id);
    bind_integer(&b, w->uid);
    bind_text(&b, w->user);
    bind_text(&b, w->name);
    bind_text(&b, w->base);
    bind_text(&b, w->key);
    bind_integer(&b, w->array_index);
    bind_integer(&b, w->kind);
    bind_integer(&b, w->priority);
    bind_integer(&b, w->state);
    bind_integer(&b, w->submitted_wall_ms);
    bind_integer(&b, w->ended_wall_ms);
    bind_text(&b, w->after);
    bind_text(&b, w->status);
    return step(s, WRITER_WORKLOAD, b.code);
}

static int write_status(struct sqlite_store *s, const struct store_op *op)
{
    struct binder b = {.statement = s->write[WRITER_STATUS]};
    bind_id(&b, op->status.id);
    bind_integer(&b, op->status.state);
    bind_integer(&b, op->status.ended_wall_ms);
    bind_text(&b, op->status.json);
    return step(s, WRITER_STATUS, b.code);
}

/* Deletes a row. First deletes its spec unless another row uses the spec, and records the largest
 * id so that the id is never assigned again. */
static int write_delete(struct sqlite_store *s, uint64_t id)
{
    int code = run_id(s, WRITER_DELETE_SPEC, id);
    if (code == SQLITE_OK)
        code = run_id(s, WRITER_DELETE_LAST_ID, id);
    return code == SQLITE_OK ? run_id(s, WRITER_DELETE, id) : code;
}

static int write_node(struct sqlite_store *s, const struct store_op *op)
{
    struct binder b = {.statement = s->write[WRITER_NODE]};
    bind_text(&b, op->node.name);
    bind_integer(&b, op->node.drained);
    bind_text(&b, op->node.json);
    return step(s, WRITER_NODE, b.code);
}

static int write_token(struct sqlite_store *s, const struct store_token *token)
{
    struct binder b = {.statement = s->write[WRITER_TOKEN]};
    bind_id(&b, token->id);
    bind_text(&b, token->hash);
    bind_text(&b, token->role);
    bind_text(&b, token->account);
    bind_text(&b, token->creator);
    bind_integer(&b, token->created_wall_ms);
    bind_integer(&b, token->expires_wall_ms);
    return step(s, WRITER_TOKEN, b.code);
}

static int write_event(struct sqlite_store *s, const struct store_event *event, uint64_t revision)
{
    struct binder b = {.statement = s->write[WRITER_EVENT]};
    bind_id(&b, revision);
    bind_integer(&b, event->wall_ms);
    bind_id(&b, event->workload);
    bind_integer(&b, event->attempt);
    bind_integer(&b, event->uid);
    bind_text(&b, event->node);
    bind_text(&b, event->what);
    bind_text(&b, event->text);
    return step(s, WRITER_EVENT, b.code);
}

static int write_op(struct error *e, struct sqlite_store *s, const struct store_op *op,
                    uint64_t *revision)
{
    int code = SQLITE_INTERNAL;
    switch (op->kind) {
    case STORE_OP_SPEC:
        code = write_spec(s, op);
        if ((code & 0xff) == SQLITE_CONSTRAINT)
            return store_error_spec_exists(e, op->spec.id);
        break;
    case STORE_OP_WORKLOAD:
        code = write_workload(s, &op->workload);
        if ((code & 0xff) == SQLITE_CONSTRAINT)
            return store_error_workload_exists(e, op->workload.id);
        break;
    case STORE_OP_STATUS:
        code = write_status(s, op);
        break;
    case STORE_OP_DELETE:
        code = write_delete(s, op->delete.id);
        break;
    case STORE_OP_NODE:
        code = write_node(s, op);
        break;
    case STORE_OP_TOKEN:
        code = write_token(s, &op->token);
        if ((code & 0xff) == SQLITE_CONSTRAINT)
            return store_error_token_exists(e, op->token.id);
        break;
    case STORE_OP_DELETE_TOKEN:
        code = run_id(s, WRITER_DELETE_TOKEN, op->delete_token.id);
        break;
    case STORE_OP_EVENT:
        code = write_event(s, &op->event, ++*revision);
        break;
    }
    return code == SQLITE_OK ? 0 : sqlite_error(e, s, s->writer, code, "writing the state");
}

/* ---- transactions ---- */

static int begin(struct error *e, struct sqlite_store *s)
{
    if (!s->writer)
        return error_set(e, ERR_DENIED, "the state in %s was opened read-only", s->directory);
    int code = run(s, WRITER_BEGIN);
    return code == SQLITE_OK ? 0 : sqlite_error(e, s, s->writer, code, "writing the state");
}

/* Commits if r is 0, else rolls back. */
static int finish(struct error *e, struct sqlite_store *s, int r)
{
    if (r == 0) {
        int code = run(s, WRITER_COMMIT);
        if (code != SQLITE_OK)
            r = sqlite_error(e, s, s->writer, code, "writing the state");
    }
    /* SQLite has already rolled back after some errors, such as a full disk. */
    if (r < 0 && !sqlite3_get_autocommit(s->writer))
        (void)run(s, WRITER_ROLLBACK);
    return r;
}

int sqlite_commit(struct error *e, struct store *base, const struct store_batch *b)
{
    struct sqlite_store *s = sqlite_of(base);
    int r = begin(e, s);
    if (r < 0)
        return r;
    uint64_t revision = atomic_load(&s->revision);
    for (const struct store_op *op = b->first; op && r == 0; op = op->next)
        r = write_op(e, s, op, &revision);
    r = finish(e, s, r);
    if (r == 0) {
        atomic_fetch_add(&s->commits, 1);
        atomic_fetch_add(&s->operations, b->count);
        /* last, because the revision announces the counters */
        atomic_store(&s->revision, revision);
    }
    return r;
}

int sqlite_trim(struct error *e, struct store *base, uint64_t keep_events)
{
    struct sqlite_store *s = sqlite_of(base);
    uint64_t revision = atomic_load(&s->revision);
    if (revision <= keep_events)
        return 0;
    int r = begin(e, s);
    if (r < 0)
        return r;
    int code = run_id(s, WRITER_TRIM_FLOOR, revision - keep_events);
    if (code == SQLITE_OK && sqlite3_changes(s->writer) > 0)
        code = run_id(s, WRITER_TRIM, revision - keep_events);
    if (code != SQLITE_OK)
        r = sqlite_error(e, s, s->writer, code, "trimming events");
    return finish(e, s, r);
}
