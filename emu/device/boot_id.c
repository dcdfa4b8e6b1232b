#include "emu/device/boot_id.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void boot_id_read(char ret_id[EMU_BOOT_ID_MAX])
{
    memset(ret_id, 0, EMU_BOOT_ID_MAX);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, ret_id, EMU_BOOT_ID_MAX - 1) < 0)
        memset(ret_id, 0, EMU_BOOT_ID_MAX);
    close(fd);
}
