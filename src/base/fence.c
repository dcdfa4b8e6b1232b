#include "base/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

bool fence_take(int fd)
{
    enum { AGAIN_MS = 5 };
    for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited_ms += AGAIN_MS) {
        if (waited_ms >= FENCE_PATIENCE_MS)
            return false;
        usleep(AGAIN_MS * 1000);
    }
    return true;
}

bool fence_is_taken(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool is_taken = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(fd);
    return is_taken;
}
