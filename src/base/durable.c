#include "base/durable.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 256, TREE_DEPTH_MAX = 64 };

/*
 * Opens NAME.tmp for writing, exclusively. Reuses an existing file only if this user owns it: in
 * another user's directory, the name may be a link to a file that only this user can write.
 */
static int temporary_open(int directory_fd, const char *temporary)
{
    int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int fd = openat(directory_fd, temporary, flags | O_CREAT | O_EXCL, 0600);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    fd = openat(directory_fd, temporary, flags);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        st.st_nlink == 1)
        return fd;
    if (fd >= 0)
        close(fd);
    if (unlinkat(directory_fd, temporary, 0) < 0)
        return -1;
    return openat(directory_fd, temporary, flags | O_CREAT | O_EXCL, 0600);
}

static bool temporary_name(const char *name, char text[NAME_MAX_BYTES])
{
    int n = snprintf(text, NAME_MAX_BYTES, "%s.tmp", name);
    return n > 0 && n < NAME_MAX_BYTES;
}

int durable_reserve(struct error *e, int directory_fd, const char *name, size_t bytes)
{
    char temporary[NAME_MAX_BYTES];
    if (!temporary_name(name, temporary))
        return error_set(e, ERR_INVALID, "file name %s is too long", name);
    int fd = temporary_open(directory_fd, temporary);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", temporary);
    int failed = posix_fallocate(fd, 0, (off_t)bytes);
    close(fd);
    if (failed && failed != EOPNOTSUPP && failed != EINVAL)
        return error_set_errno(e, ERR_IO, failed, "cannot reserve space for %s", name);
    return 0;
}

static int write_whole(int fd, const char *data, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = pwrite(fd, data + done, length - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return ftruncate(fd, (off_t)length);
}

static int replace(struct error *e, int directory_fd, const char *name, const void *data,
                   size_t length, bool sync)
{
    char temporary[NAME_MAX_BYTES];
    if (!temporary_name(name, temporary))
        return error_set(e, ERR_INVALID, "file name %s is too long", name);
    int fd = temporary_open(directory_fd, temporary);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", temporary);
    int failed = 0;
    if (write_whole(fd, data, length) < 0 || (sync && fsync(fd) < 0))
        failed = errno;
    if (close(fd) < 0 && !failed)
        failed = errno;
    if (!failed && renameat(directory_fd, temporary, directory_fd, name) < 0)
        failed = errno;
    if (!failed && sync && fsync(directory_fd) < 0)
        failed = errno;
    if (failed)
        return error_set_errno(e, ERR_IO, failed, "cannot write %s", name);
    return 0;
}

int durable_write(struct error *e, int directory_fd, const char *name, const void *data,
                  size_t length)
{
    return replace(e, directory_fd, name, data, length, true);
}

int durable_replace(struct error *e, int directory_fd, const char *name, const void *data,
                    size_t length)
{
    return replace(e, directory_fd, name, data, length, false);
}

int durable_open(struct error *e, int directory_fd, const char *name, uid_t owner, int *ret_fd)
{
    int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return error_set(e, ERR_NOT_FOUND, "%s does not exist", name);
    if (fd < 0)
        return error_set_errno(e, errno == ELOOP ? ERR_DENIED : ERR_IO, errno, "cannot open %s",
                               name);
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        (st.st_uid != owner && st.st_uid != 0 && st.st_uid != geteuid())) {
        close(fd);
        return error_set(e, ERR_DENIED, "%s is not a regular file of the expected owner", name);
    }
    /* A hard link to a file of root or of this user is not the file that was stored here. */
    if (st.st_uid != owner && st.st_nlink != 1) {
        close(fd);
        return error_set(e, ERR_DENIED, "%s has a second hard link", name);
    }
    *ret_fd = fd;
    return 0;
}

int durable_read(struct error *e, int directory_fd, const char *name, uid_t owner, struct str *out)
{
    int fd;
    int r = durable_open(e, directory_fd, name, owner, &fd);
    if (r < 0)
        return r;
    char block[4096];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 && !str_failed(out))
        str_append_bytes(out, block, (size_t)n);
    int failed = n < 0 ? errno : 0;
    close(fd);
    if (failed)
        return error_set_errno(e, ERR_IO, failed, "cannot read %s", name);
    if (str_failed(out))
        return error_set(e, ERR_TOO_LARGE, "%s is larger than %zu bytes", name, out->max);
    return 0;
}

static int remove_tree(int parent_fd, const char *name, int depth)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (depth == TREE_DEPTH_MAX) {
        close(fd);
        errno = ELOOP;
        return -1;
    }
    DIR *directory = fdopendir(fd);
    if (!directory) {
        close(fd);
        return -1;
    }
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            remove_tree(dirfd(directory), entry->d_name, depth + 1) < 0)
            failed = errno;
    closedir(directory);
    if (failed) {
        errno = failed;
        return -1;
    }
    return unlinkat(parent_fd, name, AT_REMOVEDIR);
}

int durable_remove_tree(struct error *e, int parent_fd, const char *name)
{
    if (remove_tree(parent_fd, name, 0) < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot remove %s", name);
    return 0;
}
