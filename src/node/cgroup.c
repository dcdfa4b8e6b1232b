#include "node/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup_place.h"
#include "base/str.h"

enum { LINE_MAX_BYTES = 4096 + 512 };

static void node_group_name(const char *instance, char name[NAME_MAX])
{
    snprintf(name, NAME_MAX, "gpumux-%s", instance);
}

int cgroup_open(struct error *e, const char *setting, const char *instance, int *ret_fd)
{
    char name[NAME_MAX], directory[PATH_MAX];
    int fd = -1;
    node_group_name(instance, name);
    if (str_equal(setting, "auto")) {
        fd = cgroup_place_find(name, directory);
    } else if (!str_equal(setting, "off")) {
        fd = cgroup_place_open(setting, name);
        if (fd < 0)
            return error_set_errno(e, ERR_UNSUPPORTED, errno,
                                   "cgroup: %s is not a writable cgroup v2 directory", setting);
    }
    *ret_fd = fd;
    return 0;
}

void cgroup_close(int node_fd, const char *instance)
{
    char name[NAME_MAX];
    node_group_name(instance, name);
    cgroup_place_close(node_fd, name);
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
