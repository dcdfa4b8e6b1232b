/* Copies of a state on disk: complete, private, of one moment, and never partial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "store/sqlite_internal.h"
#include "store/store_fixture.h"

enum { FILLED = 20000 };

/* Calls that make a copy durable are recorded here: f, a file is synced; r, renamed; d, a directory
 * is synced. */
static char durably[16];

static void note_call(char what)
{
    size_t length = strlen(durably);
    if (length + 1 < sizeof durably)
        durably[length] = what;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    struct stat st;
    note_call(fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) ? 'd' : 'f');
    return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int renameat2(int from_fd, const char *from, int to_fd,
                                                     const char *to, unsigned flags)
{
    note_call('r');
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

/* Returns the number of entries in `directory`. */
static int count_files(const char *directory)
{
    int count = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static void assert_same_file(const char *path, const char *expected)
{
    char text[64] = "";
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) >= 0);
    close(fd);
    assert_string_equal(text, expected);
}

static void put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* Checks that the copy alone, as the database of a new directory, answers as `s` does. */
static void assert_copy_is(const char *copy, const char *expected)
{
    char *directory = fixture_directory(), path[256];
    fixture_path(path, directory, "gpumux.db");
    assert_int_equal(rename(copy, path), 0);
    struct store *s = fixture_open(directory);
    char *found = fixture_text(s);
    assert_string_equal(found, expected);
    struct error e = {0};
    assert_int_equal(store_check(&e, s), 0);
    store_close(s);
    free(found);
    fixture_remove(directory);
}

static void backup_file_is_private_and_durable(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    fixture_submit_one(s, 2);
    fixture_path(path, target, "copy");
    struct store_backup backup = {.file = path};
    struct store_copy copy = {0};
    struct error e = {0};
    mode_t mask = umask(0);
    memset(durably, 0, sizeof durably);
    if (store_back_up_sqlite(&e, directory, &backup, &copy) < 0)
        fail_msg("%s", e.text);
    umask(mask);
    assert_string_equal(durably, "frd");
    assert_int_equal(copy.version, STORE_SCHEMA_VERSION);
    assert_int_equal(copy.workloads, 2);
    assert_int_equal(copy.revision, 2);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(copy.bytes, st.st_size);
    assert_int_equal(count_files(target), 3); /* with . and .. */
    fixture_submit_one(s, 3);                 /* the writer continues */
    char *now = fixture_text(s);
    store_close(s);
    s = fixture_open(directory);
    char *later = fixture_text(s);
    assert_string_equal(now, later);
    free(now);
    free(later);
    store_close(s);
    fixture_remove(directory);
    fixture_remove(target);
}

static void backup_equals_state(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    for (uint64_t id = 1; id <= 300; id++)
        fixture_submit_one(s, id);
    fixture_path(path, target, "copy");
    struct store_backup backup = {.file = path};
    struct store_copy copy = {0};
    struct error e = {0};
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), 0);
    char *expected = fixture_text(s);
    store_close(s);
    assert_copy_is(path, expected);
    free(expected);
    fixture_remove(directory);
    fixture_remove(target);
}

static void backup_over_file_needs_flag(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256], link[256];
    struct store *s = fixture_open(directory);
    fixture_submit_one(s, 1);
    fixture_path(path, target, "copy");
    fixture_path(link, target, "link");
    put_file(path, "older");
    struct store_backup backup = {.file = path};
    struct store_copy copy;
    struct error e = {0};
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_CONFLICT);
    assert_non_null(strstr(e.text, "--overwrite"));
    assert_same_file(path, "older");
    backup.overwrites = true;
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600); /* not the mode of the earlier file */

    /* A backup never replaces a file that is not regular, nor the state itself. */
    backup.file = target;
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_INVALID);
    assert_int_equal(symlink(path, link), 0);
    backup.file = link;
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_INVALID);
    char own[256];
    fixture_path(own, directory, "gpumux.db");
    backup.file = own;
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_INVALID);
    assert_non_null(strstr(e.text, "the state itself"));
    store_close(s);
    assert_int_equal(count_files(target), 4);
    fixture_remove(directory);
    fixture_remove(target);
}

/* Adds enough for several pieces; half of it is committed to the log alone. */
static void fill(struct store *s, uint64_t first, int count)
{
    struct store_batch *b = store_batch_new();
    struct error e = {0};
    for (int i = 0; i < count; i++) {
        assert_int_equal(fixture_submit(b, first + (uint64_t)i, 0, 10, "fill"), 0);
        assert_int_equal(fixture_event(b, first + (uint64_t)i, "submitted"), 0);
    }
    assert_int_equal(store_commit(&e, s, b), 0);
    store_batch_free(b);
}

struct course {
    struct store *s;
    int pieces, answer;
    uint64_t last_done;
};

static int note_progress(void *arg, uint64_t done, uint64_t all)
{
    struct course *course = arg;
    assert_true(done > course->last_done && done <= all);
    course->last_done = done;
    course->pieces++;
    if (course->s)
        fixture_submit_one(course->s, FILLED + (uint64_t)course->pieces);
    return course->answer;
}

static void backup_of_busy_state_is_consistent(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fill(s, 1, FILLED);
    char *expected = fixture_text(s);
    fixture_path(path, target, "copy");
    struct course course = {.s = s};
    struct store_backup backup = {.file = path, .progress = note_progress, .arg = &course};
    struct store_copy copy;
    struct error e = {0};
    if (store_back_up_sqlite(&e, directory, &backup, &copy) < 0)
        fail_msg("%s", e.text);
    assert_true(course.pieces > 2);
    assert_int_equal(copy.workloads, FILLED);
    assert_int_equal(copy.revision, FILLED);
    store_close(s);
    assert_copy_is(path, expected);
    free(expected);
    fixture_remove(directory);
    fixture_remove(target);
}

static void failed_backup_leaves_target_unchanged(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fill(s, 1, FILLED);
    store_close(s); /* everything is in the database, nothing in the log */
    fixture_path(path, target, "copy");
    put_file(path, "older");
    struct course course = {.answer = 7};
    struct store_backup backup = {
        .file = path, .overwrites = true, .progress = note_progress, .arg = &course};
    struct store_copy copy;
    struct error e = {0};
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), 7);
    backup.progress = NULL;
    fixture_limit_files(1 << 20);
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_STORE);
    fixture_limit_files(RLIM_INFINITY);
    assert_non_null(strstr(e.text, path));
    assert_same_file(path, "older");
    assert_int_equal(count_files(target), 3);
    fixture_path(path, directory, "missing/copy");
    backup.file = path;
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_IO);
    assert_non_null(strstr(e.text, path));
    fixture_remove(directory);
    fixture_remove(target);
}

/* Damages a page inside the database, which copying alone does not detect. */
static void backup_of_damaged_state_is_refused(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fill(s, 1, FILLED);
    store_close(s);
    fixture_path(path, directory, "gpumux.db");
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    char junk[4096];
    memset(junk, 'x', sizeof junk);
    assert_int_equal(pwrite(fd, junk, sizeof junk, 500 * sizeof junk), sizeof junk);
    close(fd);
    fixture_path(path, target, "copy");
    struct store_backup backup = {.file = path};
    struct store_copy copy;
    struct error e = {0};
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_CORRUPT);
    assert_non_null(strstr(e.text, "gpumux state check"));
    assert_int_equal(count_files(target), 2);
    fixture_remove(directory);
    fixture_remove(target);
}

/* Damages the copy at the last report of progress, when all is written and nothing is read back
 * yet. */
static int damage_copy(void *arg, uint64_t done, uint64_t all)
{
    const char *target = arg;
    if (done < all)
        return 0;
    DIR *d = opendir(target);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        int fd = openat(dirfd(d), entry->d_name, O_WRONLY);
        char junk[4096];
        memset(junk, 'x', sizeof junk);
        if (fd < 0)
            continue;
        assert_int_equal(pwrite(fd, junk, sizeof junk, (off_t)(done / 2)), sizeof junk);
        close(fd);
    }
    closedir(d);
    return 0;
}

static void backup_damaged_by_disk_is_removed(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    struct store *s = fixture_open(directory);
    fill(s, 1, FILLED);
    fixture_path(path, target, "copy");
    struct store_backup backup = {.file = path, .progress = damage_copy, .arg = target};
    struct store_copy copy;
    struct error e = {0};
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_CORRUPT);
    assert_non_null(strstr(e.text, "copy was damaged"));
    assert_int_equal(store_check(&e, s), 0);
    store_close(s);
    assert_int_equal(count_files(target), 2);
    fixture_remove(directory);
    fixture_remove(target);
}

static void older_layout_is_backed_up(void **state)
{
    (void)state;
    char *directory = fixture_directory(), *target = fixture_directory(), path[256];
    store_close(fixture_open(directory));
    fixture_execute(directory, "DROP TABLE tokens; PRAGMA user_version = 1;");
    fixture_path(path, target, "copy");
    struct store_backup backup = {.file = path};
    struct store_copy copy;
    struct error e = {0};
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), 0);
    assert_int_equal(copy.version, 1);
    /* A state that this gpumux cannot read is not backed up. */
    fixture_execute(directory, "PRAGMA user_version = 1000;");
    assert_int_equal(store_back_up_sqlite(&e, directory, &backup, &copy), -ERR_TOO_NEW);
    assert_int_equal(store_back_up_sqlite(&e, target, &backup, &copy), -ERR_NOT_FOUND);
    fixture_remove(directory);
    fixture_remove(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_file_is_private_and_durable),
        cmocka_unit_test(backup_equals_state),
        cmocka_unit_test(backup_over_file_needs_flag),
        cmocka_unit_test(backup_of_busy_state_is_consistent),
        cmocka_unit_test(failed_backup_leaves_target_unchanged),
        cmocka_unit_test(backup_of_damaged_state_is_refused),
        cmocka_unit_test(backup_damaged_by_disk_is_removed),
        cmocka_unit_test(older_layout_is_backed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
