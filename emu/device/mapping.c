#include "emu/device/mapping.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "emu/device/boot_id.h"

enum { PATH_BYTES_MAX = 256 };
/* Bounds a sleep: the process that raises an alarm may be killed after counting it and before
 * waking the sleepers. */
#define SLEEP_NS_MAX UINT64_C(200000000)

static int check_header(struct error *e, const char *path, const struct emu_file *header)
{
    if (header->magic != EMU_STATE_MAGIC)
        return error_set(e, ERR_CORRUPT, "%s is not a file of emulated devices", path);
    if (header->version != EMU_STATE_VERSION)
        return error_set(e, ERR_TOO_NEW,
                         "%s was made by another version of gpumux: start the emulation anew",
                         path);
    char boot_id[EMU_BOOT_ID_MAX];
    boot_id_read(boot_id);
    if (memcmp(boot_id, header->boot_id, sizeof(boot_id)) != 0)
        return error_set(e, ERR_GONE, "%s was made before the last boot: start the emulation anew",
                         path);
    return 0;
}

static int map_descriptor(struct error *e, const char *path, int fd, struct mapping *ret_mapping)
{
    struct emu_file header;
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return error_set(e, ERR_CORRUPT, "%s is too short for a file of emulated devices", path);
    int r = check_header(e, path, &header);
    if (r < 0)
        return r;
    size_t bytes = EMU_HEADER_BYTES + header.device_count * header.device_bytes;
    struct stat status;
    if (fstat(fd, &status) < 0 || (size_t)status.st_size < bytes)
        return error_set(e, ERR_CORRUPT, "%s is cut short", path);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return error_set_errno(e, ERR_IO, errno, "cannot map %s", path);
    *ret_mapping = (struct mapping){.file = at, .bytes = bytes, .fd = fd};
    return 0;
}

int mapping_open(struct error *e, const char *path, struct mapping *ret_mapping)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno,
                               "cannot open the emulated devices %s", path);
    int r = map_descriptor(e, path, fd, ret_mapping);
    if (r < 0)
        close(fd);
    return r;
}

static bool made_for(const char *path, const char *spec)
{
    struct emu_file header;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool whole = pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header);
    close(fd);
    return whole && check_header(NULL, path, &header) == 0 &&
           strncmp(header.spec, spec, sizeof(header.spec)) == 0;
}

static int open_own(struct error *e, const char *spec, struct mapping *ret_mapping)
{
    const char *directory = getenv("XDG_RUNTIME_DIR");
    char path[PATH_BYTES_MAX], lock_path[PATH_BYTES_MAX + 8];
    int length;
    if (directory && directory[0] == '/')
        length = snprintf(path, sizeof(path), "%s/gpumux-emu", directory);
    else
        length = snprintf(path, sizeof(path), "/tmp/gpumux-emu-%u", (unsigned)getuid());
    if (length < 0 || (size_t)length >= sizeof(path))
        return error_set(e, ERR_INVALID, "XDG_RUNTIME_DIR is too long");
    snprintf(lock_path, sizeof(lock_path), "%s.lock", path);

    struct emu_device_options options;
    int r = emu_device_options_from_environment(e, &options);
    if (r < 0)
        return r;
    int lock_fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot open %s", lock_path);
    if (flock(lock_fd, LOCK_EX) < 0)
        r = error_set_errno(e, ERR_IO, errno, "cannot lock %s", lock_path);
    else if (!made_for(path, spec))
        r = emu_device_file_create(e, path, spec, &options);
    if (r == 0)
        r = mapping_open(e, path, ret_mapping);
    close(lock_fd);
    return r;
}

int mapping_open_from_environment(struct error *e, struct mapping *ret_mapping)
{
    const char *path = getenv("GPUMUX_EMU");
    if (path && path[0] != '\0')
        return mapping_open(e, path, ret_mapping);
    const char *spec = getenv("GPUMUX_EMU_DEVICES");
    if (spec && spec[0] != '\0')
        return open_own(e, spec, ret_mapping);
    return error_set(e, ERR_NO_DEVICE,
                     "no emulated devices: set GPUMUX_EMU_DEVICES, for example to 2xH200:24g");
}

void mapping_close(struct mapping *mapping)
{
    munmap(mapping->file, mapping->bytes);
    close(mapping->fd);
    *mapping = (struct mapping){.fd = -1};
}

struct emu_device *mapping_device(const struct mapping *mapping, unsigned index)
{
    char *first = (char *)mapping->file + EMU_HEADER_BYTES;
    return (struct emu_device *)(void *)(first + index * mapping->file->device_bytes);
}

static uint64_t mono_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mapping_now_ns(const struct mapping *mapping)
{
    unsigned __int128 elapsed = mono_now_ns() - mapping->file->started_mono_ns;
    return (uint64_t)(elapsed * mapping->file->speed_q20 >> 20);
}

uint64_t mapping_real_ns(const struct mapping *mapping, uint64_t emulated_ns)
{
    unsigned __int128 scaled = (unsigned __int128)emulated_ns << 20;
    return mapping->file->started_mono_ns + (uint64_t)(scaled / mapping->file->speed_q20) + 1;
}

uint32_t mapping_alarms(const struct mapping *mapping)
{
    return atomic_load_explicit(&mapping->file->alarms, memory_order_acquire);
}

void mapping_alarm(const struct mapping *mapping)
{
    atomic_fetch_add_explicit(&mapping->file->alarms, 1, memory_order_acq_rel);
    syscall(SYS_futex, &mapping->file->alarms, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void mapping_sleep(const struct mapping *mapping, uint32_t alarms, uint64_t until_mono_ns)
{
    uint64_t latest_ns = mono_now_ns() + SLEEP_NS_MAX;
    if (until_mono_ns > latest_ns)
        until_mono_ns = latest_ns;
    struct timespec until = {
        .tv_sec = (time_t)(until_mono_ns / 1000000000u),
        .tv_nsec = (long)(until_mono_ns % 1000000000u),
    };
    /* FUTEX_WAIT_BITSET takes an absolute time, unlike FUTEX_WAIT. */
    syscall(SYS_futex, &mapping->file->alarms, FUTEX_WAIT_BITSET, alarms, &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
}
