/*
 * Copies of the database, for an operator and before a migration. A copy shows one snapshot, so
 * that the writer never makes the copy restart.
 *
 * The copy is written to FILE.XXXXXX, synced, read back, and only then renamed to FILE. Its header
 * has journal mode DELETE, because a file without a log beside it can be read where nothing may be
 * written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite_internal.h"

enum { PIECE_PAGES = 256 };

static int error_file(struct error *e, const char *file, int errno_value)
{
    return error_set_errno(e, errno_value == EACCES ? ERR_DENIED : ERR_IO, errno_value,
                           "cannot write the copy %s", file);
}

static int check_target(struct error *e, const struct sqlite_store *s,
                        const struct store_backup *backup)
{
    struct stat target, state;
    if (lstat(backup->file, &target) < 0)
        return errno == ENOENT ? 0 : error_file(e, backup->file, errno);
    if (!S_ISREG(target.st_mode))
        return error_set(e, ERR_INVALID, "%s is not a regular file: name the file to write",
                         backup->file);
    if (stat(s->path, &state) == 0 && state.st_dev == target.st_dev &&
        state.st_ino == target.st_ino)
        return error_set(e, ERR_INVALID, "%s is the state itself: name another file", backup->file);
    if (!backup->overwrites)
        return error_set(e, ERR_CONFLICT,
                         "%s exists: name another file, or replace it with --overwrite",
                         backup->file);
    return 0;
}

/* Reads the content of either end of a copy. */
static int describe(struct error *e, const struct sqlite_store *s, sqlite3 *db,
                    struct store_copy *ret)
{
    int r = sqlite_read_integer(e, s, db, "PRAGMA user_version", &ret->version);
    if (r == 0)
        r = sqlite_read_integer(e, s, db, "SELECT count(*) FROM workloads", &ret->workloads);
    if (r == 0)
        r = sqlite_read_integer(e, s, db, "SELECT ifnull(max(revision), 0) FROM events",
                                &ret->revision);
    return r;
}

/* Copies all pages, and sets journal mode DELETE in `to`. SQLite notices the copied mode WAL only
 * when it reads the copy, hence the SELECT before the PRAGMA. */
static int copy_pages(struct error *e, const struct sqlite_store *s, sqlite3 *from,
                      const struct sqlite_store *to, const struct store_backup *backup)
{
    int64_t page_bytes = 0;
    int r = sqlite_read_integer(e, s, from, "PRAGMA page_size", &page_bytes);
    if (r < 0)
        return r;
    int code = sqlite3_exec(
        to->writer,
        "PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF",
        NULL, NULL, NULL);
    sqlite3_backup *copying =
        code == SQLITE_OK ? sqlite3_backup_init(to->writer, "main", from, "main") : NULL;
    while (copying && r == 0 && (code = sqlite3_backup_step(copying, PIECE_PAGES)) == SQLITE_OK) {
        uint64_t all = (uint64_t)sqlite3_backup_pagecount(copying);
        uint64_t left = (uint64_t)sqlite3_backup_remaining(copying);
        if (backup->progress && left > 0)
            r = backup->progress(backup->arg, (all - left) * (uint64_t)page_bytes,
                                 all * (uint64_t)page_bytes);
    }
    bool is_whole = copying && code == SQLITE_DONE;
    code = copying ? sqlite3_backup_finish(copying) : sqlite3_errcode(to->writer);
    if (is_whole && code == SQLITE_OK)
        code = sqlite3_exec(to->writer,
                            "SELECT count(*) FROM sqlite_schema; PRAGMA journal_mode = DELETE",
                            NULL, NULL, NULL);
    if (r < 0 || code == SQLITE_OK)
        return r;
    bool is_damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    return sqlite_error(e, is_damaged ? s : to, is_damaged ? from : to->writer, code,
                        "writing the copy");
}

/* Reads the copy from the disk, not from the kernel's cache. */
static int read_back(struct error *e, struct sqlite_store *to, int fd,
                     const struct sqlite_store *source, const struct store_copy *expected)
{
    struct store_copy found;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    int r = sqlite_connect(e, to, to->path, SQLITE_OPEN_READONLY, &to->reader);
    if (r == 0)
        r = sqlite_check_integrity(e, to);
    if (r == 0)
        r = describe(e, to, to->reader, &found);
    if (r == 0 && (found.version != expected->version || found.workloads != expected->workloads ||
                   found.revision != expected->revision))
        r = error_set(e, ERR_CORRUPT, "it differs from the state");
    if (r == -ERR_CORRUPT) {
        struct error why = *e;
        r = error_set(
            e, ERR_CORRUPT,
            "the copy was damaged and is removed (%.200s); `gpumux state check --state %s` "
            "says whether the state is sound",
            why.text, source->directory);
    }
    return r;
}

static int write_copy(struct error *e, const struct sqlite_store *s, sqlite3 *from,
                      const struct store_backup *backup, const char *partial, int fd,
                      struct store_copy *ret)
{
    struct sqlite_store to = {.path = (char *)partial, .directory = (char *)backup->file};
    struct stat st = {0};
    int r = sqlite_connect(e, &to, partial, SQLITE_OPEN_READWRITE, &to.writer);
    if (r == 0)
        r = copy_pages(e, s, from, &to, backup);
    sqlite3_close(to.writer);
    if (r == 0 && (fsync(fd) < 0 || fstat(fd, &st) < 0))
        r = error_file(e, backup->file, errno);
    ret->bytes = (uint64_t)st.st_size;
    if (r == 0 && backup->progress)
        r = backup->progress(backup->arg, ret->bytes, ret->bytes);
    if (r == 0)
        r = read_back(e, &to, fd, s, ret);
    sqlite3_close(to.reader);
    return r;
}

/* Renames the copy. A file system without RENAME_NOREPLACE was checked for an existing file
 * before. */
static int put_in_place(struct error *e, const struct store_backup *backup, const char *partial)
{
    int done = renameat2(AT_FDCWD, partial, AT_FDCWD, backup->file,
                         backup->overwrites ? 0 : RENAME_NOREPLACE);
    if (done < 0 && errno == EINVAL)
        done = rename(partial, backup->file);
    if (done < 0)
        return error_file(e, backup->file, errno);
    const char *slash = strrchr(backup->file, '/');
    char *directory =
        !slash ? strdup(".")
               : strndup(backup->file, slash == backup->file ? 1 : (size_t)(slash - backup->file));
    int r = directory ? sqlite_sync_directory(e, directory)
                      : error_set(e, ERR_NO_MEMORY, "no memory to copy the state");
    free(directory);
    return r;
}

int sqlite_back_up(struct error *e, const struct sqlite_store *s, sqlite3 *from,
                   const struct store_backup *backup, struct store_copy *ret)
{
    struct store_copy copy = {0};
    char *partial = NULL;
    int r = check_target(e, s, backup);
    if (r == 0 && asprintf(&partial, "%s.XXXXXX", backup->file) < 0)
        r = error_set(e, ERR_NO_MEMORY, "no memory to copy the state");
    if (r < 0)
        return r;
    int fd = mkostemp(partial, O_CLOEXEC); /* mode 0600: specs contain environments */
    if (fd < 0) {
        r = error_file(e, backup->file, errno);
        free(partial);
        return r;
    }
    int code = sqlite3_exec(from, "BEGIN", NULL, NULL, NULL);
    r = code == SQLITE_OK ? describe(e, s, from, &copy)
                          : sqlite_error(e, s, from, code, "copying the state");
    if (r == 0)
        r = write_copy(e, s, from, backup, partial, fd, &copy);
    if (code == SQLITE_OK)
        (void)sqlite3_exec(from, "COMMIT", NULL, NULL, NULL);
    if (r == 0)
        r = put_in_place(e, backup, partial);
    if (r != 0)
        (void)unlink(partial);
    close(fd);
    free(partial);
    if (r == 0)
        *ret = copy;
    return r;
}
