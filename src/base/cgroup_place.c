#include "base/cgroup_place.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

enum { LINE_MAX_BYTES = PATH_MAX + 512 };

int cgroup_place_open(const char *directory, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/cgroup.procs", directory) >= (int)sizeof path ||
        access(path, F_OK) < 0)
        return -1;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path ||
        (mkdir(path, 0755) < 0 && errno != EEXIST))
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && faccessat(fd, "cgroup.kill", W_OK, 0) < 0) {
        cgroup_place_close(fd, name);
        errno = ENOSYS;
        return -1;
    }
    return fd;
}

/* Reads the own group's path in the v2 hierarchy from the line "0::/path"; "" is the root. */
static bool read_own(char path[PATH_MAX])
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[LINE_MAX_BYTES];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        found = str_starts_with(line, "0::") &&
                str_copy(path, PATH_MAX, str_equal(line + 3, "/") ? "" : line + 3);
    }
    if (file)
        fclose(file);
    return found;
}

int cgroup_place_find(const char *name, char ret_directory[PATH_MAX])
{
    char own[PATH_MAX], directory[PATH_MAX], strings[2 * LINE_MAX_BYTES];
    struct mntent entry;
    FILE *mounts = read_own(own) ? setmntent("/proc/self/mounts", "re") : NULL;
    int fd = -1, failed = ENOENT;
    ret_directory[0] = '\0';
    while (mounts && fd < 0 && getmntent_r(mounts, &entry, strings, sizeof strings)) {
        if (!str_equal(entry.mnt_type, "cgroup2") ||
            snprintf(directory, PATH_MAX, "%s%s", entry.mnt_dir, own) >= PATH_MAX)
            continue;
        fd = cgroup_place_open(directory, name);
        if (fd < 0 && errno == ENOENT)
            continue;
        failed = errno;
        str_copy(ret_directory, PATH_MAX, directory);
    }
    if (mounts)
        endmntent(mounts);
    errno = failed;
    return fd;
}

void cgroup_place_close(int fd, const char *name)
{
    int parent_fd = fd < 0 ? -1 : openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent_fd >= 0) {
        unlinkat(parent_fd, name, AT_REMOVEDIR);
        close(parent_fd);
    }
    if (fd >= 0)
        close(fd);
}
