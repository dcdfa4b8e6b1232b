#include "node/lease.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

int lease_open(struct error *e, int directory_fd, struct lease *ret)
{
    int fd = openat(directory_fd, "lease", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    int read_fd = fd < 0 ? -1 : openat(directory_fd, "lease", O_RDONLY | O_CLOEXEC);
    void *page = MAP_FAILED;
    if (read_fd >= 0 && posix_fallocate(fd, 0, sizeof(uint64_t)) == 0)
        page = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int failed = errno;
    if (fd >= 0)
        close(fd);
    if (page == MAP_FAILED) {
        if (read_fd >= 0)
            close(read_fd);
        return error_set_errno(e, ERR_IO, failed, "the lease file cannot be made");
    }
    *ret = (struct lease){.read_fd = read_fd, .deadline_ms = page};
    return 0;
}

void lease_close(struct lease *lease)
{
    if (!lease->deadline_ms)
        return;
    munmap((void *)(uintptr_t)lease->deadline_ms, sizeof(uint64_t));
    close(lease->read_fd);
    lease->deadline_ms = NULL;
}

void lease_extend(struct lease *lease, int64_t deadline_ms)
{
    if ((uint64_t)deadline_ms > atomic_load(lease->deadline_ms))
        atomic_store(lease->deadline_ms, (uint64_t)deadline_ms);
}

int64_t lease_deadline(const struct lease *lease)
{
    return (int64_t)atomic_load(lease->deadline_ms);
}

void lease_reset(struct lease *lease)
{
    atomic_store(lease->deadline_ms, 0);
}
