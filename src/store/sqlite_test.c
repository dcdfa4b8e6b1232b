/* Abilities of a store on disk: refusing, migrating, surviving kills and full disks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "store/sqlite_internal.h"
#include "store/store_fixture.h"

enum { TEXT_MAX_BYTES = 64 << 20 };

/* Counts the syncs of SQLite. */
static _Atomic int syncs;
__attribute__((visibility("default"))) int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

/* ---- opening ---- */

static void open_store_refuses_second_writer(void **state)
{
    (void)state;
    char *directory = fixture_directory(), pid[32];
    struct store *s = fixture_open(directory), *second;
    struct error e = {0};
    assert_int_equal(store_open_sqlite(&e, directory, &second), -ERR_BUSY);
    snprintf(pid, sizeof pid, "(pid %d)", (int)getpid());
    assert_non_null(strstr(e.text, pid));
    fixture_submit_one(s, 1);
    /* Reading is allowed meanwhile. */
    assert_int_equal(store_open_sqlite_readonly(&e, directory, &second), 0);
    assert_int_equal(store_revision(second), 1);
    assert_int_equal(store_check(&e, second), 0);
    struct store_batch *b = store_batch_new();
    assert_int_equal(fixture_event(b, 1, "x"), 0);
    assert_int_equal(store_commit(&e, second, b), -ERR_DENIED);
    store_batch_free(b);
    store_close(second);
    store_close(s);
    store_close(fixture_open(directory));
    fixture_remove(directory);
}

static void missing_state_error_names_path(void **state)
{
    (void)state;
    char *directory = fixture_directory(), path[256];
    struct store *s;
    struct error e = {0};
    fixture_path(path, directory, "missing");
    assert_int_equal(store_open_sqlite(&e, path, &s), -ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(store_open_sqlite_readonly(&e, directory, &s), -ERR_NOT_FOUND);
    assert_non_null(strstr(e.text, directory));
    fixture_remove(directory);
}

static void unwritable_directory_error_names_path(void **state)
{
    (void)state;
    char *directory = fixture_directory();
    assert_int_equal(chmod(directory, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
            _exit(9);
        struct store *s;
        struct error e = {0};
        int r = store_open_sqlite(&e, directory, &s);
        _exit(r == -ERR_DENIED && strstr(e.text, directory) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(directory, 0755), 0);
    fixture_remove(directory);
}

static void database_files_are_private_to_owner(void **state)
{
    (void)state;
    char *directory = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    const char *const files[] = {"gpumux.db", "gpumux.db-wal", "lock"};
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        fixture_path(path, directory, files[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 077, 0);
    }
    store_close(s);
    fixture_remove(directory);
}

static void damaged_database_error_names_check_command(void **state)
{
    (void)state;
    char *directory = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    store_close(s);
    fixture_path(path, directory, "gpumux.db");
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    char junk[4096];
    memset(junk, 'x', sizeof junk);
    assert_int_equal(pwrite(fd, junk, sizeof junk, 0), sizeof junk);
    close(fd);
    struct error e = {0};
    assert_int_equal(store_open_sqlite(&e, directory, &s), -ERR_CORRUPT);
    assert_non_null(strstr(e.text, "gpumux state check"));
    assert_int_equal(store_open_sqlite_readonly(&e, directory, &s), -ERR_CORRUPT);
    fixture_remove(directory);
}

static void foreign_database_is_refused(void **state)
{
    (void)state;
    char *directory = fixture_directory();
    fixture_execute(directory, "CREATE TABLE photos (name TEXT)");
    struct store *s;
    struct error e = {0};
    assert_int_equal(store_open_sqlite(&e, directory, &s), -ERR_CORRUPT);
    assert_non_null(strstr(e.text, "not a state of gpumux"));
    fixture_remove(directory);
}

static void store_check_finds_inconsistent_rows(void **state)
{
    (void)state;
    const char *const harms[][2] = {
        {"DELETE FROM specs WHERE id = 2", "workload 2 has no spec"},
        {"UPDATE workloads SET status = '{' WHERE id = 1", "status of workload 1"},
        {"UPDATE specs SET json = 'x' WHERE id = 1", "spec 1 is not JSON"},
        {"UPDATE specs SET summary = 'x' WHERE id = 1", "the summary of spec 1 is not JSON"},
    };
    for (size_t i = 0; i < sizeof harms / sizeof harms[0]; i++) {
        char *directory = fixture_directory();
        struct store *s = fixture_open(directory);
        struct error e = {0};
        fixture_submit_one(s, 1);
        fixture_submit_one(s, 2);
        assert_int_equal(store_check(&e, s), 0);
        fixture_execute(directory, harms[i][0]);
        assert_int_equal(store_check(&e, s), -ERR_CORRUPT);
        assert_non_null(strstr(e.text, harms[i][1]));
        store_close(s);
        fixture_remove(directory);
    }
}

/* ---- layouts ---- */

static void older_layout_migrates_after_backup(void **state)
{
    (void)state;
    char *directory = fixture_directory(), path[256];
    const char *const steps[] = {
        sqlite_schema_current()->steps[0],
        sqlite_schema_current()->steps[1],
        sqlite_schema_current()->steps[2],
        "ALTER TABLE nodes ADD COLUMN rack TEXT; DELETE FROM meta WHERE key = 'none';",
        "CREATE TABLE racks (name TEXT PRIMARY KEY);",
    };
    const struct sqlite_schema future = {.version = 5, .steps = steps};
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    fixture_submit_one(s, 2);
    char *before = fixture_text(s);
    store_close(s);

    struct error e = {0};
    assert_int_equal(sqlite_open_schema(&e, directory, &future, &s), 0);
    char *after = fixture_text(s);
    assert_string_equal(before, after);
    store_close(s);
    free(after);
    fixture_execute(directory, "INSERT INTO racks VALUES ('a')");

    /* The earlier program refuses the state, and the copy is what that program wrote. */
    assert_int_equal(store_open_sqlite(&e, directory, &s), -ERR_TOO_NEW);
    assert_non_null(strstr(e.text, "layout 5"));
    assert_int_equal(store_open_sqlite_readonly(&e, directory, &s), -ERR_TOO_NEW);
    char backup[256];
    fixture_path(path, directory, "gpumux.db");
    fixture_path(backup, directory, "gpumux.db.v3.backup");
    assert_int_equal(rename(backup, path), 0);
    s = fixture_open(directory);
    after = fixture_text(s);
    assert_string_equal(before, after);
    store_close(s);
    free(after);
    free(before);
    fixture_remove(directory);
}

static void first_layout_migrates_and_accepts_tokens(void **state)
{
    (void)state;
    char *directory = fixture_directory(), backup[256];
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    char *before = fixture_text(s);
    store_close(s);
    fixture_execute(directory, "DROP TABLE tokens; ALTER TABLE specs DROP COLUMN summary;"
                               "PRAGMA user_version = 1;");
    s = fixture_open(directory);
    char *after = fixture_text(s);
    assert_string_equal(before, after);
    struct error e = {0};
    struct store_batch *b = store_batch_new();
    struct store_token token = {
        .id = 1, .hash = "aa", .role = "user", .account = "ada", .creator = "root"};
    assert_int_equal(store_batch_token(b, &token), 0);
    assert_int_equal(store_commit(&e, s, b), 0);
    store_batch_free(b);
    store_close(s);
    fixture_path(backup, directory, "gpumux.db.v1.backup");
    assert_int_equal(access(backup, R_OK), 0);
    free(before);
    free(after);
    fixture_remove(directory);
}

static void failed_migration_changes_nothing(void **state)
{
    (void)state;
    char *directory = fixture_directory();
    const char *const steps[] = {sqlite_schema_current()->steps[0],
                                 sqlite_schema_current()->steps[1],
                                 sqlite_schema_current()->steps[2],
                                 "CREATE TABLE racks (name TEXT); INSERT INTO nowhere VALUES (1);"};
    const struct sqlite_schema future = {.version = 4, .steps = steps};
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    char *before = fixture_text(s);
    store_close(s);
    struct error e = {0};
    for (int i = 0; i < 2; i++) /* an existing copy is no obstacle */
        assert_true(sqlite_open_schema(&e, directory, &future, &s) < 0);
    s = fixture_open(directory);
    char *after = fixture_text(s);
    assert_string_equal(before, after);
    store_close(s);
    free(before);
    free(after);
    fixture_remove(directory);
}

/* ---- crashes ---- */

enum { BATCH_WORKLOADS = 3 };

/* Commits batches of three and reports each acknowledged batch, until killed. */
static void commit_for_ever(const char *directory, int acknowledge_fd)
{
    struct error e = {0};
    struct store *s;
    uint64_t last_id = 0;
    struct str sink;
    str_init(&sink, TEXT_MAX_BYTES);
    if (store_open_sqlite(&e, directory, &s) < 0 ||
        store_load(&e, s, fixture_dump_node, fixture_dump_workload, &sink, &last_id) < 0)
        _exit(3);
    for (uint64_t id = last_id + 1;; id += BATCH_WORKLOADS) {
        struct store_batch *b = store_batch_new();
        for (uint64_t i = 0; i < BATCH_WORKLOADS; i++)
            if (fixture_submit(b, id + i, 0, 10, "crash") < 0 ||
                fixture_event(b, id + i, "submitted") < 0)
                _exit(4);
        if (store_commit(&e, s, b) < 0)
            _exit(5);
        store_batch_free(b);
        uint64_t told = id + BATCH_WORKLOADS - 1;
        if (write(acknowledge_fd, &told, sizeof told) != sizeof told)
            _exit(6);
    }
}

/* Starts the child and kills it more_us after `acknowledgements` acknowledgements. Returns the last
 * acknowledged id. */
static uint64_t kill_after(const char *directory, uint64_t acknowledgements, useconds_t more_us)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fds[0]);
        commit_for_ever(directory, fds[1]);
    }
    close(fds[1]);
    uint64_t told = 0, next;
    for (uint64_t i = 0; i < acknowledgements; i++) {
        assert_int_equal(read(fds[0], &next, sizeof next), sizeof next);
        told = next;
    }
    usleep(more_us);
    assert_int_equal(kill(child, SIGKILL), 0);
    while (read(fds[0], &next, sizeof next) == sizeof next)
        told = next;
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    close(fds[0]);
    return told;
}

static int count_row(void *count, const struct store_workload *row)
{
    (void)row;
    ++*(uint64_t *)count;
    return 0;
}

static int no_node(void *arg, const char *name, bool drained, const char *json)
{
    (void)arg, (void)name, (void)drained, (void)json;
    return 0;
}

static void acknowledged_commits_survive_kills(void **state)
{
    (void)state;
    char *directory = fixture_directory();
    struct rng rng;
    rng_seed(&rng, 7);
    for (int round = 0; round < 12; round++) {
        uint64_t told =
            kill_after(directory, 1 + rng_below(&rng, 30), (useconds_t)rng_below(&rng, 3000));
        struct store *s = fixture_open(directory);
        struct error e = {0};
        uint64_t rows = 0, last_id = 0;
        assert_int_equal(store_load(&e, s, no_node, count_row, &rows, &last_id), 0);
        assert_true(last_id >= told);
        assert_int_equal(rows, last_id);             /* no row is missing, */
        assert_int_equal(rows % BATCH_WORKLOADS, 0); /* no batch is partial, */
        /* at most one batch was not yet reported, */
        assert_true(last_id - told <= BATCH_WORKLOADS);
        assert_int_equal(store_revision(s), rows); /* and each row has its event */
        assert_int_equal(store_check(&e, s), 0);
        store_close(s);
    }
    fixture_remove(directory);
}

static void commit_costs_one_sync(void **state)
{
    (void)state;
    enum { COMMITS = 50 };
    char *directory = fixture_directory();
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1); /* the first commit also writes the head of the log */
    int before = atomic_load(&syncs);
    for (uint64_t id = 2; id < 2 + COMMITS; id++)
        fixture_submit_one(s, id);
    assert_int_equal(atomic_load(&syncs) - before, COMMITS);
    store_close(s);
    fixture_remove(directory);
}

/* ---- full disks ---- */

static void full_disk_fails_only_the_commit(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    char *directory = fixture_directory();
    struct store *s = fixture_open(directory);
    struct error e = {0};
    fixture_submit_one(s, 1);
    fixture_limit_files(256 << 10);
    uint64_t id = 2;
    int r;
    do {
        struct store_batch *b = store_batch_new();
        for (int i = 0; i < 20; i++)
            assert_int_equal(fixture_submit(b, id + (uint64_t)i, 0, 10, "fill"), 0);
        r = store_commit(&e, s, b);
        store_batch_free(b);
        if (r == 0)
            id += 20;
        assert_true(id < 100000);
    } while (r == 0);
    assert_int_equal(r, -ERR_STORE);
    assert_non_null(strstr(e.text, directory));

    /* The store still answers, and has exactly the acknowledged rows. */
    uint64_t rows = 0, last_id = 0;
    assert_int_equal(store_load(&e, s, no_node, count_row, &rows, &last_id), 0);
    assert_int_equal(last_id, id - 1);
    assert_int_equal(rows, id - 1);

    fixture_limit_files(RLIM_INFINITY);
    fixture_submit_one(s, id);
    store_close(s);
    s = fixture_open(directory);
    rows = 0;
    assert_int_equal(store_load(&e, s, no_node, count_row, &rows, &last_id), 0);
    assert_int_equal(rows, id);
    assert_int_equal(store_check(&e, s), 0);
    store_close(s);
    fixture_remove(directory);
}

/* ---- two threads ---- */

enum { BATCHES = 300 };

struct writer {
    struct store *s;
    int r;
    _Atomic bool has_ended;
};

static void *write_batches(void *arg)
{
    struct writer *w = arg;
    for (uint64_t i = 0; i < BATCHES && w->r == 0; i++) {
        struct store_batch *b = store_batch_new();
        fixture_submit(b, 2 * i + 1, 2, 10, "pair");
        fixture_event(b, 2 * i + 1, "submitted");
        struct error e = {0};
        w->r = store_commit(&e, w->s, b);
        store_batch_free(b);
    }
    w->has_ended = true;
    return NULL;
}

struct sight {
    int r;
    uint64_t revision, rows, commits;
};

static struct sight look(struct store *s)
{
    struct sight seen = {.revision = store_revision(s)};
    struct error e = {0};
    struct store_filter all = {.kind = -1, .limit = STORE_PAGE_MAX};
    seen.r = store_list(&e, s, &all, count_row, &seen.rows);
    struct store_counters counters;
    store_count(s, &counters);
    seen.commits = counters.commits;
    return seen;
}

/* Returns whether announced revisions are present, as whole batches, and counted. */
static bool is_right(const struct sight *seen)
{
    return seen->r == 0 && seen->rows % 2 == 0 && seen->rows >= 2 * seen->revision &&
           seen->commits >= seen->revision;
}

static void reader_beside_writer_sees_whole_batches(void **state)
{
    (void)state;
    char *directory = fixture_directory();
    struct store *s = fixture_open(directory);
    struct writer w = {.s = s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_batches, &w), 0);
    struct sight seen;
    bool has_ended;
    do {
        has_ended = w.has_ended;
        seen = look(s);
    } while (!has_ended && is_right(&seen));
    /* before any assertion, because a failed one would leave the thread's target */
    pthread_join(thread, NULL);
    if (!is_right(&seen))
        fail_msg("revision %" PRIu64 ": %d, %" PRIu64 " rows, %" PRIu64 " commits", seen.revision,
                 seen.r, seen.rows, seen.commits);
    assert_int_equal(w.r, 0);
    assert_int_equal(seen.revision, BATCHES);
    store_close(s);
    fixture_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_store_refuses_second_writer),
        cmocka_unit_test(missing_state_error_names_path),
        cmocka_unit_test(unwritable_directory_error_names_path),
        cmocka_unit_test(database_files_are_private_to_owner),
        cmocka_unit_test(damaged_database_error_names_check_command),
        cmocka_unit_test(foreign_database_is_refused),
        cmocka_unit_test(store_check_finds_inconsistent_rows),
        cmocka_unit_test(older_layout_migrates_after_backup),
        cmocka_unit_test(first_layout_migrates_and_accepts_tokens),
        cmocka_unit_test(failed_migration_changes_nothing),
        cmocka_unit_test(acknowledged_commits_survive_kills),
        cmocka_unit_test(commit_costs_one_sync),
        cmocka_unit_test(full_disk_fails_only_the_commit),
        cmocka_unit_test(reader_beside_writer_sees_whole_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
