#include "node/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

enum { LINE_MAX_BYTES = 4096 + 512 };

/* Opens gpumux-INSTANCE, made if missing, in a writable directory of a v2 hierarchy. */
static int open_under(const char *base, const char *instance)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/cgroup.procs", base) >= (int)sizeof path ||
        stat(path, &st) < 0)
        return -1;
    if (snprintf(path, sizeof path, "%s/gpumux-%s", base, instance) >= (int)sizeof path ||
        (mkdir(path, 0755) < 0 && errno != EEXIST))
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && faccessat(fd, "cgroup.kill", W_OK, 0) < 0) {
        close(fd); /* a kernel before 5.14 */
        errno = ENOSYS;
        return -1;
    }
    return fd;
}

/* Reads this process's own group in the v2 hierarchy: "0::/path" gives "/path". */
static bool own_path(char path[PATH_MAX])
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[LINE_MAX_BYTES];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        if (str_starts_with(line, "0::")) {
            line[strcspn(line, "\n")] = '\0';
            found = str_copy(path, PATH_MAX, line + 3);
        }
    if (file)
        fclose(file);
    return found;
}

static int open_auto(const char *instance)
{
    char own[PATH_MAX], line[LINE_MAX_BYTES], base[2 * PATH_MAX];
    FILE *mounts = own_path(own) ? fopen("/proc/self/mounts", "re") : NULL;
    int fd = -1;
    while (mounts && fd < 0 && fgets(line, sizeof line, mounts)) {
        char root[PATH_MAX], type[64];
        if (sscanf(line, "%*s %4095s %63s", root, type) != 2 || !str_equal(type, "cgroup2"))
            continue;
        snprintf(base, sizeof base, "%s%s", root, str_equal(own, "/") ? "" : own);
        fd = open_under(base, instance);
    }
    if (mounts)
        fclose(mounts);
    return fd;
}

int cgroup_open(struct error *e, const char *setting, const char *instance, int *ret_fd)
{
    int fd = -1;
    if (str_equal(setting, "auto")) {
        fd = open_auto(instance);
    } else if (!str_equal(setting, "off")) {
        fd = open_under(setting, instance);
        if (fd < 0)
            return error_set_errno(e, ERR_UNSUPPORTED, errno,
                                   "cgroup: %s is not a writable cgroup v2 directory", setting);
    }
    *ret_fd = fd;
    return 0;
}

void cgroup_close(int node_fd, const char *instance)
{
    if (node_fd < 0)
        return;
    char name[NAME_MAX];
    int parent_fd = openat(node_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent_fd >= 0 && snprintf(name, sizeof name, "gpumux-%s", instance) < (int)sizeof name)
        unlinkat(parent_fd, name, AT_REMOVEDIR);
    if (parent_fd >= 0)
        close(parent_fd);
    close(node_fd);
}

static int make_part(int attempt_fd, const char *part)
{
    if (mkdirat(attempt_fd, part, 0755) < 0 && errno != EEXIST)
        return -1;
    return 0;
}

/* Gives the user exactly the files for moving processes between the parts and for killing them. */
static int give_to(int attempt_fd, uid_t uid, gid_t gid)
{
    static const char *const files[] = {"cgroup.procs", "task/cgroup.procs", "task/cgroup.kill",
                                        "supervisor/cgroup.procs"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (fchownat(attempt_fd, files[i], uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
    return 0;
}

int cgroup_make(int node_fd, const char *name, uid_t uid, gid_t gid)
{
    if (node_fd < 0 || (mkdirat(node_fd, name, 0755) < 0 && errno != EEXIST))
        return -1;
    int fd = openat(node_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && make_part(fd, "supervisor") == 0 && make_part(fd, "task") == 0 &&
        (uid == geteuid() || give_to(fd, uid, gid) == 0))
        return fd;
    if (fd >= 0)
        close(fd);
    cgroup_end(node_fd, name);
    return -1;
}

static bool write_file(int directory_fd, const char *file, const char *text)
{
    int fd = openat(directory_fd, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

void cgroup_enter(int attempt_fd)
{
    /* Best effort: the supervisor also works outside the group. "0" means the writing process. */
    (void)write_file(attempt_fd, "supervisor/cgroup.procs", "0");
}

static bool is_populated(int attempt_fd)
{
    char text[256];
    int fd = openat(attempt_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    text[n] = '\0';
    return strstr(text, "populated 1") != NULL;
}

/* Reads the group's own list: a path in /proc/PID/cgroup may be of a group with the same name. */
bool cgroup_holds(int node_fd, const char *name, pid_t pid)
{
    static const char *const parts[] = {"supervisor", "task"};
    bool found = false;
    for (size_t i = 0; node_fd >= 0 && !found && i < sizeof parts / sizeof *parts; i++) {
        char path[NAME_MAX];
        int member;
        (void)snprintf(path, sizeof path, "%s/%s/cgroup.procs", name, parts[i]);
        int fd = openat(node_fd, path, O_RDONLY | O_CLOEXEC);
        FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
        while (file && !found && fscanf(file, "%d", &member) == 1)
            found = member == pid;
        if (file)
            fclose(file);
        else if (fd >= 0)
            close(fd);
    }
    return found;
}

bool cgroup_end(int node_fd, const char *name)
{
    int fd = node_fd < 0 ? -1 : openat(node_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return true;
    (void)write_file(fd, "cgroup.kill", "1");
    bool empty = !is_populated(fd);
    if (empty) {
        unlinkat(fd, "task", AT_REMOVEDIR);
        unlinkat(fd, "supervisor", AT_REMOVEDIR);
        unlinkat(node_fd, name, AT_REMOVEDIR);
    }
    close(fd);
    return empty;
}
