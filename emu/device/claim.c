#include "emu/device/claim.h"

#include <fcntl.h>
#include <unistd.h>

/* Far behind any data, so that a lock never covers a byte that a process reads. */
#define CLAIMS_START ((off_t)1 << 48)

static struct flock byte_lock(const struct device *device, unsigned number, short type)
{
    return (struct flock){
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = CLAIMS_START + (off_t)device->index * CLAIMS_PER_DEVICE + (off_t)number,
        .l_len = 1,
    };
}

bool claim_take(const struct device *device, unsigned number)
{
    struct flock lock = byte_lock(device, number, F_WRLCK);
    return fcntl(device->mapping->fd, F_OFD_SETLK, &lock) == 0;
}

void claim_drop(const struct device *device, unsigned number)
{
    struct flock lock = byte_lock(device, number, F_UNLCK);
    (void)fcntl(device->mapping->fd, F_OFD_SETLK, &lock);
}

bool claim_is_held(const struct device *device, unsigned number)
{
    struct flock lock = byte_lock(device, number, F_WRLCK);
    return fcntl(device->mapping->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}
