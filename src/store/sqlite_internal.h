/*
 * Declarations that the four files of the SQLite store share: sqlite_open.c (directory, schema,
 * migrations), sqlite.c (writing), sqlite_read.c (reading) and sqlite_backup.c (copies).
 *
 * The store has two connections to one database in WAL mode. Only the writer's thread uses the
 * writer's connection, and only the reader's thread uses the reader's connection. Members used by
 * both threads are atomic.
 */
#pragma once
#include <sqlite3.h>
#include <stdatomic.h>

#include "store/store_internal.h"

enum {
    SQLITE_STORE_APPLICATION_ID =
        0x67706d78, /* "gpmx", which distinguishes this database from databases of other programs */
    /* Pages of log between two checkpoints (32 MB). A checkpoint costs two syncs and stalls the
     * writer; a restart after a crash reads a log of this size in a fraction of a second. */
    SQLITE_STORE_CHECKPOINT_PAGES = 8192,
    SQLITE_STORE_BUSY_MS = 5000, /* longest wait for a lock, which only `state check` of another
                                  * process can hold */
};

enum writer_statement {
    WRITER_BEGIN,
    WRITER_COMMIT,
    WRITER_ROLLBACK,
    WRITER_SPEC,
    WRITER_WORKLOAD,
    WRITER_STATUS,
    WRITER_DELETE_SPEC,
    WRITER_DELETE_LAST_ID,
    WRITER_DELETE,
    WRITER_NODE,
    WRITER_TOKEN,
    WRITER_DELETE_TOKEN,
    WRITER_EVENT,
    WRITER_TRIM,
    WRITER_TRIM_FLOOR,
    WRITER_STATEMENT_END
};

enum reader_statement {
    READER_BEGIN,
    READER_END,
    READER_LIST_ALL,
    READER_LIST_STATE,
    READER_LIST_USER,
    READER_LIST_BASE,
    READER_GET,
    READER_ROW,
    READER_SPEC,
    READER_SUMMARY,
    READER_NEWEST,
    READER_NEWEST_OF_USER,
    READER_GROUP,
    READER_LOAD,
    READER_LAST_ID,
    READER_NODES,
    READER_TOKENS,
    READER_LAST_TOKEN,
    READER_EVENTS,
    READER_EVENTS_OF_WORKLOAD,
    READER_FLOOR,
    READER_REVISION,
    READER_STATEMENT_END
};

struct sqlite_store {
    struct store base;
    char *directory, *path;
    int lock_fd;
    sqlite3 *writer; /* NULL: opened read-only */
    sqlite3 *reader;
    sqlite3_stmt *write[WRITER_STATEMENT_END];
    sqlite3_stmt *read[READER_STATEMENT_END];
    _Atomic uint64_t revision; /* newest committed revision */
    _Atomic uint64_t commits, operations;
};

static inline struct sqlite_store *sqlite_of(struct store *s)
{
    return (struct sqlite_store *)s;
}

/*
 * The layout of the state, as a list of migration steps: steps[v] turns version v into v + 1, and
 * version 0 is an empty file. A released step must never change; append a new step instead.
 */
struct sqlite_schema {
    int version;
    const char *const *steps;
};
const struct sqlite_schema *sqlite_schema_current(void);

/* Opens a store with another layout, for tests of migration; otherwise like store_open_sqlite(). */
int sqlite_open_schema(struct error *e, const char *directory, const struct sqlite_schema *schema,
                       struct store **ret);

/* Sets an error from SQLite's `code` on db; `doing` is a phrase such as "writing the state".
 * Returns -ERR_STORE, -ERR_CORRUPT, -ERR_NO_MEMORY, … */
int sqlite_error(struct error *e, const struct sqlite_store *s, sqlite3 *db, int code,
                 const char *doing);

/* Reads the first column of the single row that `sql` returns. */
int sqlite_read_integer(struct error *e, const struct sqlite_store *s, sqlite3 *db, const char *sql,
                        int64_t *ret);
int sqlite_connect(struct error *e, const struct sqlite_store *s, const char *uri, int flags,
                   sqlite3 **ret);
int sqlite_sync_directory(struct error *e, const char *directory);
/* Copies the database through `from`, a connection to the database of s; see
 * store_back_up_sqlite(). */
int sqlite_back_up(struct error *e, const struct sqlite_store *s, sqlite3 *from,
                   const struct store_backup *backup, struct store_copy *ret);

int sqlite_prepare_writer(struct error *e, struct sqlite_store *s);
int sqlite_prepare_reader(struct error *e, struct sqlite_store *s);
void sqlite_finalize(sqlite3_stmt **statements, size_t count);

int sqlite_commit(struct error *e, struct store *s, const struct store_batch *b);
int sqlite_trim(struct error *e, struct store *s, uint64_t keep_events);

int sqlite_list(struct error *e, struct store *s, const struct store_filter *filter,
                store_workload_fn fn, void *arg);
int sqlite_get(struct error *e, struct store *s, uint64_t id, store_workload_fn fn, void *arg);
int sqlite_resolve(struct error *e, struct store *s, const struct store_owner *owner,
                   const char *name, uint64_t *ret_ids, size_t room);
int sqlite_nodes(struct error *e, struct store *s, store_node_fn fn, void *arg);
int sqlite_load(struct error *e, struct store *s, store_node_fn node_fn,
                store_workload_fn workload_fn, void *arg, uint64_t *ret_last_id);
int sqlite_tokens(struct error *e, struct store *s, store_token_fn fn, void *arg,
                  uint64_t *ret_last_id);
int sqlite_events(struct error *e, struct store *s, uint64_t since, uint64_t workload, size_t limit,
                  store_event_fn fn, void *arg);
/* Reads the newest committed revision from the database itself. */
int sqlite_read_revision(struct error *e, struct sqlite_store *s, uint64_t *ret);
int sqlite_check(struct error *e, struct store *s);
/* Checks only the integrity of the database's pages, for any layout. Needs the reader. */
int sqlite_check_integrity(struct error *e, struct sqlite_store *s);
