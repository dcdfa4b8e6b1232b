#include "node/device/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int kept_open(struct error *e, int directory_fd, const char *name, size_t bytes, void **ret_map)
{
    int fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int failed = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    void *map = MAP_FAILED;
    if (!failed) {
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        failed = errno;
    }
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return error_set_errno(e, ERR_IO, failed, "the file %s cannot be made", name);
    *ret_map = map;
    return 0;
}

void kept_close(void *map, size_t bytes)
{
    if (map)
        munmap(map, bytes);
}
