#include "node/device/host_memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define CGROUPS "/sys/fs/cgroup"

enum { FILE_BYTES = 8192 };

/* Reads the beginning of a file as text. Returns false if there is no such file. */
static bool read_text(const char *path, char text[FILE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, FILE_BYTES - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Returns the number behind a key at the beginning of a line; UINT64_MAX: absent. */
static uint64_t number_of(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0)
            return strtoull(line + length, NULL, 10);
        if (!*line)
            break;
    }
    return UINT64_MAX;
}

static uint64_t number_in(const char *directory, const char *file)
{
    char path[PATH_MAX], text[FILE_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path ||
        !read_text(path, text) || text[0] < '0' || text[0] > '9')
        return UINT64_MAX; /* also "max" */
    return strtoull(text, NULL, 10);
}

/* Returns the bytes that one cgroup still allows. The kernel takes back cached files first. */
static uint64_t left_in(const char *directory)
{
    char path[PATH_MAX], text[FILE_BYTES];
    uint64_t most = number_in(directory, "memory.max"),
             held = number_in(directory, "memory.current");
    if (most == UINT64_MAX || held == UINT64_MAX)
        return UINT64_MAX;
    uint64_t cached = 0;
    if (snprintf(path, sizeof path, "%s/memory.stat", directory) < (int)sizeof path &&
        read_text(path, text))
        cached = number_of(text, "inactive_file ");
    if (cached != UINT64_MAX && cached < held)
        held -= cached;
    return held < most ? most - held : 0;
}

/* Returns the least that this process's cgroup and the cgroups around it still allow. */
static uint64_t left_in_cgroups(void)
{
    char text[FILE_BYTES], directory[FILE_BYTES + sizeof CGROUPS];
    uint64_t least = UINT64_MAX;
    const char *line = read_text("/proc/self/cgroup", text) ? strstr(text, "0::/") : NULL;
    if (!line)
        return least;
    (void)snprintf(directory, sizeof directory, CGROUPS "%.*s", (int)strcspn(line + 3, "\n"),
                   line + 3);
    for (;;) {
        uint64_t left = left_in(directory);
        least = left < least ? left : least;
        char *end = strrchr(directory, '/');
        if (strlen(directory) <= strlen(CGROUPS) || !end)
            return least;
        *end = '\0';
    }
}

uint64_t host_memory_available(void)
{
    char text[FILE_BYTES];
    uint64_t kib = read_text("/proc/meminfo", text) ? number_of(text, "MemAvailable:") : UINT64_MAX;
    if (kib == UINT64_MAX)
        return 0;
    uint64_t bytes = kib << 10, left = left_in_cgroups();
    return left < bytes ? left : bytes;
}
