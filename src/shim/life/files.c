#include "shim/life/files.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/sys/sys.h"

static const char directory[] = "/proc/self/fd/";

/* Layout of the kernel's directory entries. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static bool starts_with(const char *text, size_t length, const char *start)
{
    size_t wanted = start ? strlen(start) : 0;
    return wanted > 0 && length >= wanted && memcmp(text, start, wanted) == 0;
}

/* Returns -1 if the name is no number. */
static int number_of(const char *name)
{
    int number = 0;
    for (const char *c = name; *c; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *c - '0', &number))
            return -1;
    }
    return *name ? number : -1;
}

static bool is_of_device(const char *name)
{
    char path[sizeof(directory) + 16], target[512];
    size_t length = strlen(name);
    if (length >= 16)
        return false;
    memcpy(path, directory, sizeof(directory) - 1);
    memcpy(path + sizeof(directory) - 1, name, length + 1);
    long count = sys_call(SYS_readlink, (long)path, (long)target, sizeof(target), 0, 0, 0);
    return count > 0 && (starts_with(target, (size_t)count, "/dev/nvidia") ||
                         starts_with(target, (size_t)count, getenv("GPUMUX_EMU")));
}

size_t files_of_devices(int *ret_fds, size_t max)
{
    _Alignas(struct entry) char buffer[2048];
    size_t count = 0;
    int listing =
        (int)sys_call(SYS_open, (long)directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0, 0);
    for (long bytes; listing >= 0 && (bytes = sys_call(SYS_getdents64, listing, (long)buffer,
                                                       sizeof(buffer), 0, 0, 0)) > 0;) {
        for (long i = 0; i < bytes && count < max;) {
            const struct entry *entry = (const struct entry *)(buffer + i);
            int fd = number_of(entry->name);
            if (fd >= 0 && fd != listing && is_of_device(entry->name))
                ret_fds[count++] = fd;
            i += entry->bytes;
        }
    }
    if (listing >= 0)
        (void)sys_close(listing);
    return count;
}
