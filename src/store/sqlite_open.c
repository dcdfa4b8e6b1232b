/*
 * Opening: the directory and its lock, the layout of the database and its migrations.
 *
 *   DIRECTORY/lock                     flock held while a gpumux has the state open; has its pid
 *   DIRECTORY/gpumux.db, -wal, -shm    the database
 *   DIRECTORY/gpumux.db.vN.backup      copy made before the migration from version N
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/str.h"
#include "store/sqlite_internal.h"

/* Rows of an index end with the table's id, so that each range below is in the order of ids. */
static const char *const schema_steps[] = {
    [0] = "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
          "INSERT INTO meta VALUES ('last_id', 0), ('events_floor', 0);"
          "CREATE TABLE specs (id INTEGER PRIMARY KEY, json TEXT NOT NULL);"
          "CREATE TABLE workloads (id INTEGER PRIMARY KEY, group_id INTEGER NOT NULL,"
          " first_id INTEGER NOT NULL, submitted INTEGER NOT NULL, spec_id INTEGER NOT NULL,"
          " uid INTEGER NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, base TEXT NOT NULL,"
          " key TEXT, array_index INTEGER NOT NULL, kind INTEGER NOT NULL,"
          " priority INTEGER NOT NULL, state INTEGER NOT NULL, submitted_wall_ms INTEGER NOT NULL,"
          " ended_wall_ms INTEGER NOT NULL, after TEXT NOT NULL, status TEXT NOT NULL);"
          "CREATE INDEX workloads_by_state ON workloads (state, kind);"
          "CREATE INDEX workloads_by_user ON workloads (uid, state, kind);"
          "CREATE INDEX workloads_by_base ON workloads (base, id, uid);"
          "CREATE INDEX workloads_by_spec ON workloads (spec_id);"
          "CREATE TABLE nodes (name TEXT PRIMARY KEY, drained INTEGER NOT NULL, json TEXT NOT NULL)"
          " WITHOUT ROWID;"
          "CREATE TABLE events (revision INTEGER PRIMARY KEY, wall_ms INTEGER NOT NULL,"
          " workload INTEGER NOT NULL, attempt INTEGER NOT NULL, uid INTEGER NOT NULL,"
          " node TEXT NOT NULL, what TEXT NOT NULL, text TEXT NOT NULL);"
          "CREATE INDEX events_by_workload ON events (workload) WHERE workload <> 0;",
    [1] = "CREATE TABLE tokens (id INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL UNIQUE,"
          " role TEXT NOT NULL, account TEXT NOT NULL, creator TEXT NOT NULL,"
          " created_wall_ms INTEGER NOT NULL, expires_wall_ms INTEGER NOT NULL);",
    /* The summary precedes the JSON, which may be long: SQLite reads a row from its beginning. */
    [2] = "CREATE TABLE summarized (id INTEGER PRIMARY KEY, summary TEXT, json TEXT NOT NULL);"
          "INSERT INTO summarized SELECT id, NULL, json FROM specs;"
          "DROP TABLE specs;"
          "ALTER TABLE summarized RENAME TO specs;",
};
_Static_assert(sizeof schema_steps / sizeof schema_steps[0] == STORE_SCHEMA_VERSION,
               "one step for every version");

static const struct sqlite_schema schema_current = {.version = STORE_SCHEMA_VERSION,
                                                    .steps = schema_steps};

const struct sqlite_schema *sqlite_schema_current(void)
{
    return &schema_current;
}

/* ---- errors ---- */

static int error_damaged(struct error *e, const struct sqlite_store *s, const char *why)
{
    return error_set(
        e, ERR_CORRUPT,
        "the state %s is damaged (%s); `gpumux state check --state %s` says where, and "
        "`gpumux state export` saves what can still be read",
        s->path, why, s->directory);
}

int sqlite_error(struct error *e, const struct sqlite_store *s, sqlite3 *db, int code,
                 const char *doing)
{
    const char *why = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return error_damaged(e, s, why);
    case SQLITE_NOMEM:
        return error_set(e, ERR_NO_MEMORY, "%s in %s: out of memory", doing, s->directory);
    case SQLITE_FULL:
        return error_set(e, ERR_STORE, "%s in %s failed: the disk is full; make room, then repeat",
                         doing, s->directory);
    case SQLITE_IOERR:
        return error_set(e, ERR_STORE, "%s in %s failed: %s (%s)", doing, s->directory, why,
                         strerror(db ? sqlite3_system_errno(db) : errno));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        return error_set(e, ERR_STORE, "%s in %s failed: %s; are its files writable?", doing,
                         s->directory, why);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(e, ERR_STORE, "%s in %s failed: another program has locked %s", doing,
                         s->directory, s->path);
    default:
        return error_set(e, ERR_INTERNAL, "%s in %s failed: %s (SQLite %d)", doing, s->directory,
                         why, code);
    }
}

/* ---- the directory ---- */

static int error_directory(struct error *e, const char *directory, int errno_value)
{
    switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
        return error_set(e, ERR_NOT_FOUND, "the state directory %s does not exist", directory);
    case EACCES:
    case EPERM:
    case EROFS:
        return error_set_errno(e, ERR_DENIED, errno_value,
                               "the state directory %s cannot be written by uid %u", directory,
                               (unsigned)geteuid());
    default:
        return error_set_errno(e, ERR_STORE, errno_value, "the state directory %s", directory);
    }
}

static int error_locked(struct error *e, const char *directory, int fd)
{
    char pid[16] = "";
    ssize_t length = pread(fd, pid, sizeof pid - 1, 0);
    pid[length > 0 ? length : 0] = '\0';
    pid[strcspn(pid, "\n")] = '\0';
    return error_set(e, ERR_BUSY, "the state directory %s is in use by another gpumux (pid %s)",
                     directory, pid[0] ? pid : "unknown");
}

/* Locks the directory against a second gpumux. */
static int lock_directory(struct error *e, struct sqlite_store *s)
{
    char *path;
    if (asprintf(&path, "%s/lock", s->directory) < 0)
        return error_set(e, ERR_NO_MEMORY, "no memory to open %s", s->directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int saved = errno;
    free(path);
    if (fd < 0)
        return error_directory(e, s->directory, saved);
    if (!fence_take(fd)) {
        int r = error_locked(e, s->directory, fd);
        close(fd);
        return r;
    }
    char pid[16];
    int length = snprintf(pid, sizeof pid, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)length, 0) != length) {
        int r = error_set_errno(e, ERR_STORE, errno, "the state directory %s cannot be written",
                                s->directory);
        close(fd);
        return r;
    }
    s->lock_fd = fd;
    return 0;
}

int sqlite_sync_directory(struct error *e, const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || fsync(fd) < 0
                ? error_set_errno(e, ERR_STORE, errno, "syncing the directory %s", directory)
                : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

/* Makes the file with mode 0600 before SQLite opens it: specs contain environments, which contain
 * secrets. */
static int create_database(struct error *e, const struct sqlite_store *s)
{
    int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set_errno(e, errno == ENOSPC || errno == EDQUOT ? ERR_STORE : ERR_DENIED,
                               errno, "the state %s cannot be opened", s->path);
    close(fd);
    return sqlite_sync_directory(e, s->directory);
}

/* ---- layout ---- */

static int execute(struct error *e, const struct sqlite_store *s, sqlite3 *db, const char *sql)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : sqlite_error(e, s, db, code, "opening the state");
}

int sqlite_read_integer(struct error *e, const struct sqlite_store *s, sqlite3 *db, const char *sql,
                        int64_t *ret)
{
    sqlite3_stmt *q;
    int code = sqlite3_prepare_v2(db, sql, -1, &q, NULL);
    if (code != SQLITE_OK)
        return sqlite_error(e, s, db, code, "reading the state");
    code = sqlite3_step(q);
    int64_t value = code == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    if (code != SQLITE_ROW)
        return sqlite_error(e, s, db, code, "reading the state");
    *ret = value;
    return 0;
}

/* Reads the version; 0 for an empty file. Refuses another program's database and newer versions
 * before anything is written. */
static int read_version(struct error *e, const struct sqlite_store *s, sqlite3 *db,
                        const struct sqlite_schema *schema, int *ret_version)
{
    int64_t version = 0, application = 0, tables = 0;
    int r = sqlite_read_integer(e, s, db, "PRAGMA user_version", &version);
    if (r == 0)
        r = sqlite_read_integer(e, s, db, "PRAGMA application_id", &application);
    if (r == 0)
        r = sqlite_read_integer(e, s, db, "SELECT count(*) FROM sqlite_schema", &tables);
    if (r < 0)
        return r;
    if (tables > 0 && (application != SQLITE_STORE_APPLICATION_ID || version < 1))
        return error_damaged(e, s, "not a state of gpumux");
    if (version > schema->version)
        return error_set(e, ERR_TOO_NEW,
                         "the state %s has layout %d, written by a newer gpumux; this one knows "
                         "layouts up to %d",
                         s->path, (int)version, schema->version);
    *ret_version = (int)version;
    return 0;
}

static int back_up(struct error *e, struct sqlite_store *s, int version)
{
    char *file;
    struct store_copy copy;
    if (asprintf(&file, "%s.v%d.backup", s->path, version) < 0)
        return error_set(e, ERR_NO_MEMORY, "no memory to copy the state");
    int r = sqlite_back_up(e, s, s->writer,
                           &(struct store_backup){.file = file, .overwrites = true}, &copy);
    free(file);
    return r;
}

static int migrate(struct error *e, struct sqlite_store *s, const struct sqlite_schema *schema,
                   int version)
{
    if (version == schema->version)
        return 0;
    int r = version > 0 ? back_up(e, s, version) : 0;
    if (r == 0)
        r = execute(e, s, s->writer, "BEGIN IMMEDIATE");
    if (r < 0)
        return r;
    for (int v = version; v < schema->version && r == 0; v++)
        r = execute(e, s, s->writer, schema->steps[v]);
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             SQLITE_STORE_APPLICATION_ID, schema->version);
    if (r == 0)
        r = execute(e, s, s->writer, pragmas);
    if (r == 0)
        r = execute(e, s, s->writer, "COMMIT");
    if (r < 0)
        (void)sqlite3_exec(s->writer, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

/* ---- connections ---- */

int sqlite_connect(struct error *e, const struct sqlite_store *s, const char *uri, int flags,
                   sqlite3 **ret)
{
    sqlite3 *db = NULL;
    int code = sqlite3_open_v2(uri, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK) {
        int r = sqlite_error(e, s, db, code, "opening the state");
        sqlite3_close(db);
        return r;
    }
    sqlite3_busy_timeout(db, SQLITE_STORE_BUSY_MS);
    *ret = db;
    return 0;
}

static int open_writer(struct error *e, struct sqlite_store *s, const struct sqlite_schema *schema)
{
    int version;
    int r = sqlite_connect(e, s, s->path, SQLITE_OPEN_READWRITE, &s->writer);
    if (r == 0)
        r = read_version(e, s, s->writer, schema, &version);
    if (r < 0)
        return r;
    /* FULL: a commit returns after the log was synced. Each commit appends to the log and syncs it
     * once; only a checkpoint writes to the database itself. */
    char pragmas[160];
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -4096;"
             "PRAGMA wal_autocheckpoint = %d;",
             SQLITE_STORE_CHECKPOINT_PAGES);
    r = execute(e, s, s->writer, pragmas);
    if (r == 0)
        r = migrate(e, s, schema, version);
    return r == 0 ? sqlite_prepare_writer(e, s) : r;
}

static int open_reader(struct error *e, struct sqlite_store *s, const char *uri, int flags,
                       const struct sqlite_schema *schema)
{
    int version;
    uint64_t revision;
    int r = sqlite_connect(e, s, uri, flags, &s->reader);
    if (r == 0)
        r = execute(e, s, s->reader, "PRAGMA query_only = 1; PRAGMA cache_size = -2048;");
    if (r == 0)
        r = read_version(e, s, s->reader, schema, &version);
    if (r == 0 && version < schema->version)
        r = error_set(e, ERR_UNSUPPORTED,
                      "the state %s has layout %d, this gpumux reads %d; `gpumux up` migrates it",
                      s->path, version, schema->version);
    if (r == 0)
        r = sqlite_prepare_reader(e, s);
    if (r == 0)
        r = sqlite_read_revision(e, s, &revision);
    if (r == 0)
        atomic_store(&s->revision, revision);
    return r;
}

void sqlite_finalize(sqlite3_stmt **statements, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sqlite3_finalize(statements[i]);
}

static void sqlite_close(struct store *base)
{
    struct sqlite_store *s = sqlite_of(base);
    sqlite_finalize(s->read, READER_STATEMENT_END);
    sqlite_finalize(s->write, WRITER_STATEMENT_END);
    sqlite3_close(s->reader);
    sqlite3_close(s->writer);
    if (s->lock_fd >= 0)
        close(s->lock_fd); /* last: nobody may open the directory while the log is merged */
    free(s->path);
    free(s->directory);
    free(s);
}

static uint64_t sqlite_revision(struct store *base)
{
    return atomic_load(&sqlite_of(base)->revision);
}

static uint64_t file_bytes(const char *path, const char *suffix)
{
    char *name;
    struct stat st;
    if (asprintf(&name, "%s%s", path, suffix) < 0)
        return 0;
    uint64_t bytes = stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
    free(name);
    return bytes;
}

static void sqlite_count(struct store *base, struct store_counters *ret)
{
    struct sqlite_store *s = sqlite_of(base);
    *ret = (struct store_counters){
        .commits = atomic_load(&s->commits),
        .operations = atomic_load(&s->operations),
        .bytes = file_bytes(s->path, "") + file_bytes(s->path, "-wal"),
    };
}

static const struct store_ops sqlite_ops = {
    .close = sqlite_close,
    .commit = sqlite_commit,
    .trim = sqlite_trim,
    .list = sqlite_list,
    .get = sqlite_get,
    .resolve = sqlite_resolve,
    .load = sqlite_load,
    .nodes = sqlite_nodes,
    .tokens = sqlite_tokens,
    .events = sqlite_events,
    .revision = sqlite_revision,
    .count = sqlite_count,
    .check = sqlite_check,
};

static int sqlite_new(struct error *e, const char *directory, struct sqlite_store **ret)
{
    struct sqlite_store *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, ERR_NO_MEMORY, "no memory for a store");
    s->base.ops = &sqlite_ops;
    s->lock_fd = -1;
    s->directory = strdup(directory);
    if (!s->directory || asprintf(&s->path, "%s/gpumux.db", directory) < 0) {
        s->path = NULL;
        sqlite_close(&s->base);
        return error_set(e, ERR_NO_MEMORY, "no memory for a store");
    }
    *ret = s;
    return 0;
}

int sqlite_open_schema(struct error *e, const char *directory, const struct sqlite_schema *schema,
                       struct store **ret)
{
    struct sqlite_store *s;
    int r = sqlite_new(e, directory, &s);
    if (r < 0)
        return r;
    r = lock_directory(e, s);
    if (r == 0)
        r = create_database(e, s);
    if (r == 0)
        r = open_writer(e, s, schema);
    if (r == 0)
        r = open_reader(e, s, s->path, SQLITE_OPEN_READWRITE, schema);
    if (r < 0) {
        sqlite_close(&s->base);
        return r;
    }
    *ret = &s->base;
    return 0;
}

int store_open_sqlite(struct error *e, const char *directory, struct store **ret)
{
    return sqlite_open_schema(e, directory, &schema_current, ret);
}

/* Makes a store with nothing open yet. *ret is untouched if there is no readable database. */
static int find_database(struct error *e, const char *directory, struct sqlite_store **ret)
{
    struct sqlite_store *s;
    int r = sqlite_new(e, directory, &s);
    if (r < 0)
        return r;
    if (access(s->path, R_OK) < 0) {
        r = errno == EACCES ? error_set(e, ERR_DENIED, "the state %s may not be read by uid %u",
                                        s->path, (unsigned)geteuid())
                            : error_set(e, ERR_NOT_FOUND, "there is no state in %s", directory);
        sqlite_close(&s->base);
        return r;
    }
    *ret = s;
    return 0;
}

int store_open_sqlite_readonly(struct error *e, const char *directory, struct store **ret)
{
    struct sqlite_store *s;
    int r = find_database(e, directory, &s);
    if (r < 0)
        return r;
    r = open_reader(e, s, s->path, SQLITE_OPEN_READONLY, &schema_current);
    if (r < 0) {
        sqlite_close(&s->base);
        return r;
    }
    *ret = &s->base;
    return 0;
}

int store_back_up_sqlite(struct error *e, const char *directory, const struct store_backup *backup,
                         struct store_copy *ret)
{
    struct sqlite_store *s;
    int version, r = find_database(e, directory, &s);
    if (r < 0)
        return r;
    r = sqlite_connect(e, s, s->path, SQLITE_OPEN_READONLY, &s->reader);
    if (r == 0)
        r = read_version(e, s, s->reader, &schema_current, &version);
    if (r == 0 && version == 0)
        r = error_set(e, ERR_NOT_FOUND, "there is no state in %s", directory);
    if (r == 0)
        r = sqlite_back_up(e, s, s->reader, backup, ret);
    sqlite_close(&s->base);
    return r;
}
