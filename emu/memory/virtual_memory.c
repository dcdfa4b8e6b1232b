/*
 * Virtual memory management: address ranges and device memory, made separately, and mappings
 * between them. A mapping with access is an entry in the table of allocations, so that copies find
 * it; several mappings of the same memory share its contents.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/memory/memory.h"

enum { GRANULE_BYTES = 2 << 20 };
enum access_flags { ACCESS_NONE = 0, ACCESS_READ = 1, ACCESS_READ_WRITE = 3 };

struct reservation {
    struct list link; /* link in process.reservations */
    uint64_t address, bytes;
};

struct physical {
    uint32_t magic;
    unsigned references; /* handles and mappings */
    unsigned ordinal;
    struct visible_device *visible;
    /* Visible.opened when the memory was made; the memory is gone if that has changed. */
    uint64_t opened;
    uint64_t bytes;
    unsigned char *contents;
    int fd;           /* file behind the contents of exportable memory, or -1 */
    bool is_imported; /* another process is charged for the memory */
    struct list link; /* link in process.physicals */
};

#define SHARED_MAGIC UINT64_C(0x304d454d584d5047) /* "GPMXMEM0" */

/* Trailer behind the contents of exportable memory. */
struct shared_trailer {
    uint64_t magic;
    uint64_t bytes;
    uint64_t device; /* index in the device file */
};

struct mapped_range {
    struct list link; /* link in process.mapped_ranges */
    uint64_t address, bytes;
    struct physical *physical; /* a reference */
    uint64_t offset;
    enum access_flags access;
};

static bool is_whole(uint64_t value)
{
    return value % GRANULE_BYTES == 0;
}

/* Call under process.lock. */
static void drop_reference(struct physical *physical)
{
    if (--physical->references > 0)
        return;
    if (physical->opened == physical->visible->opened && physical->visible->context_count > 0 &&
        !physical->is_imported)
        memory_discharge(physical->visible, physical->bytes);
    munmap(physical->contents, physical->bytes);
    if (physical->fd >= 0)
        close(physical->fd);
    list_remove(&physical->link);
    physical->magic = DEAD_MAGIC;
    free(physical);
}

static int check_properties(const CUmemAllocationProp *wanted)
{
    if (!wanted || wanted->type != CUDA_ALLOCATION_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    return wanted->location.type == CUDA_LOCATION_DEVICE &&
                   (wanted->requestedHandleTypes & ~CUDA_HANDLE_POSIX_FD) == 0
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

static int check_device(const struct process *process, const CUmemLocation *location)
{
    return location->id >= 0 && (unsigned)location->id < process->device_count
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

CUDA_API int cuMemGetAllocationGranularity(size_t *ret_bytes, const CUmemAllocationProp *wanted,
                                           int option)
{
    enum { OPTION_MINIMUM = 0, OPTION_RECOMMENDED = 1 };
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_bytes || (option != OPTION_MINIMUM && option != OPTION_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    r = check_properties(wanted);
    if (r == CUDA_SUCCESS)
        *ret_bytes = GRANULE_BYTES;
    return r;
}

/* Reserves a range that starts on a granule: reserves more and unmaps the ends. */
static int reserve_range(size_t bytes, size_t alignment, uint64_t *ret_address)
{
    size_t asked = bytes + alignment;
    char *at = mmap(NULL, asked, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t before = (alignment - (uintptr_t)at % alignment) % alignment;
    if (before > 0)
        munmap(at, before);
    munmap(at + before + bytes, alignment - before);
    *ret_address = (uint64_t)(uintptr_t)(at + before);
    return CUDA_SUCCESS;
}

/* The wanted address is a hint, and is never followed here. */
CUDA_API int cuMemAddressReserve(uint64_t *ret_address, size_t bytes, size_t alignment,
                                 uint64_t wanted, unsigned long long flags)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    (void)wanted;
    if (!ret_address || bytes == 0 || !is_whole(bytes) || flags != 0 ||
        (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < GRANULE_BYTES)
        alignment = GRANULE_BYTES;
    if (bytes > SIZE_MAX - alignment)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct reservation *reservation = malloc(sizeof(*reservation));
    if (!reservation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    reservation->bytes = bytes;
    r = reserve_range(bytes, alignment, &reservation->address);
    if (r != CUDA_SUCCESS) {
        free(reservation);
        return r;
    }
    pthread_mutex_lock(&process->lock);
    list_append(&process->reservations, &reservation->link);
    pthread_mutex_unlock(&process->lock);
    *ret_address = reservation->address;
    return CUDA_SUCCESS;
}

/* Returns the reservation that contains the range. Call under process.lock. */
static struct reservation *find_reservation(struct process *process, uint64_t address,
                                            uint64_t bytes)
{
    list_for_each (it, &process->reservations) {
        struct reservation *r = list_entry(it, struct reservation, link);
        if (address >= r->address && bytes <= r->bytes && address - r->address <= r->bytes - bytes)
            return r;
    }
    return NULL;
}

/* Returns a mapping that overlaps the range. Call under process.lock. */
static struct mapped_range *find_overlap(struct process *process, uint64_t address, uint64_t bytes)
{
    list_for_each (it, &process->mapped_ranges) {
        struct mapped_range *m = list_entry(it, struct mapped_range, link);
        if (address < m->address + m->bytes && m->address < address + bytes)
            return m;
    }
    return NULL;
}

CUDA_API int cuMemAddressFree(uint64_t address, size_t bytes)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    struct reservation *reservation = find_reservation(process, address, bytes);
    if (!reservation || reservation->address != address || reservation->bytes != bytes ||
        find_overlap(process, address, bytes)) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        munmap((void *)(uintptr_t)address, bytes);
        list_remove(&reservation->link);
        free(reservation);
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

/* Maps the contents: private, or in a file whose descriptor another process can receive. */
static void *map_contents(size_t bytes, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int make_descriptor(const struct visible_device *visible, size_t bytes, int *ret_fd)
{
    const struct shared_trailer trailer = {SHARED_MAGIC, bytes, visible->device.index};
    int fd = memfd_create("gpumux-memory", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pwrite(fd, &trailer, sizeof(trailer), (off_t)bytes) != (ssize_t)sizeof(trailer)) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_fd = fd;
    return CUDA_SUCCESS;
}

/* Takes ownership of `what->fd` on success. Call under process.lock. */
static int enter_physical(struct process *process, const struct physical *what,
                          struct physical **ret_physical)
{
    struct physical *physical = malloc(sizeof(*physical));
    void *contents = physical ? map_contents(what->bytes, what->fd) : NULL;
    if (!contents) {
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *physical = *what;
    physical->magic = PHYSICAL_MAGIC;
    physical->references = 1;
    physical->visible = &process->devices[what->ordinal];
    physical->opened = physical->visible->opened;
    physical->contents = contents;
    list_append(&process->physicals, &physical->link);
    *ret_physical = physical;
    return CUDA_SUCCESS;
}

/* Call under process.lock. */
static int make_physical(struct process *process, unsigned ordinal, size_t bytes, bool can_export,
                         struct physical **ret_physical)
{
    struct physical made = {.ordinal = ordinal, .bytes = bytes, .fd = -1};
    struct visible_device *visible = &process->devices[ordinal];
    if (visible->context_count == 0)
        return CUDA_ERROR_INVALID_CONTEXT; /* the process is no client of the device */
    int r = memory_charge(visible, bytes);
    if (r != CUDA_SUCCESS)
        return r;
    if (can_export)
        r = make_descriptor(visible, bytes, &made.fd);
    if (r == CUDA_SUCCESS)
        r = enter_physical(process, &made, ret_physical);
    if (r != CUDA_SUCCESS) {
        if (made.fd >= 0)
            close(made.fd);
        memory_discharge(visible, bytes);
    }
    return r;
}

CUDA_API int cuMemCreate(struct physical **ret_handle, size_t bytes,
                         const CUmemAllocationProp *wanted, unsigned long long flags)
{
    struct process *process;
    int r = process_ready(&process);
    if (r == CUDA_SUCCESS)
        r = check_properties(wanted);
    if (r == CUDA_SUCCESS)
        r = check_device(process, &wanted->location);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_handle || bytes == 0 || !is_whole(bytes) || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    r = make_physical(process, (unsigned)wanted->location.id, bytes,
                      wanted->requestedHandleTypes != 0, ret_handle);
    pthread_mutex_unlock(&process->lock);
    return r;
}

static int physical_resolve(const struct physical *handle, struct process **ret_process)
{
    int r = process_ready(ret_process);
    if (r != CUDA_SUCCESS)
        return r;
    return handle && handle->magic == PHYSICAL_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API int cuMemRelease(struct physical *handle)
{
    struct process *process;
    int r = physical_resolve(handle, &process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    drop_reference(handle);
    pthread_mutex_unlock(&process->lock);
    return CUDA_SUCCESS;
}

/* The mapping has no access until cuMemSetAccess grants it. */
CUDA_API int cuMemMap(uint64_t address, size_t bytes, size_t offset, struct physical *handle,
                      unsigned long long flags)
{
    struct process *process;
    int r = physical_resolve(handle, &process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!is_whole(bytes))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0 || !is_whole(address) || offset != 0 || flags != 0 || bytes > handle->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapped_range *mapped = malloc(sizeof(*mapped));
    if (!mapped)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *mapped = (struct mapped_range){
        .address = address,
        .bytes = bytes,
        .physical = handle,
        .offset = offset,
    };
    pthread_mutex_lock(&process->lock);
    if (!find_reservation(process, address, bytes) || find_overlap(process, address, bytes)) {
        r = CUDA_ERROR_INVALID_VALUE;
        free(mapped);
    } else {
        handle->references++;
        list_append(&process->mapped_ranges, &mapped->link);
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

/* Grants or removes access to the range. Call under process.lock. */
static int set_access(struct process *process, struct mapped_range *mapped,
                      enum access_flags access)
{
    struct allocation *found = allocations_find(&process->allocations, mapped->address, 0);
    if (found && found->address == mapped->address && found->kind == ALLOCATION_MAPPED) {
        if (access == ACCESS_NONE)
            allocations_remove(&process->allocations, found);
    } else if (access != ACCESS_NONE) {
        const struct allocation added = {
            .kind = ALLOCATION_MAPPED,
            .address = mapped->address,
            .bytes = mapped->bytes,
            .span_bytes = mapped->bytes,
            .backing = mapped->physical->contents + mapped->offset,
        };
        if (allocations_add(&process->allocations, &added, NULL) < 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mapped->access = access;
    return CUDA_SUCCESS;
}

/* Returns whether mappings cover every byte of the range and end with it. Call under
 * process.lock. */
static bool is_covered(struct process *process, uint64_t address, uint64_t bytes)
{
    uint64_t covered_bytes = 0;
    list_for_each (it, &process->mapped_ranges) {
        const struct mapped_range *m = list_entry(it, struct mapped_range, link);
        if (m->address >= address && m->address + m->bytes <= address + bytes)
            covered_bytes += m->bytes;
    }
    return bytes > 0 && covered_bytes == bytes;
}

CUDA_API int cuMemUnmap(uint64_t address, size_t bytes)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&process->lock);
    if (is_covered(process, address, bytes)) {
        struct mapped_range *mapped;
        while ((mapped = find_overlap(process, address, bytes)) != NULL) {
            set_access(process, mapped, ACCESS_NONE);
            drop_reference(mapped->physical);
            list_remove(&mapped->link);
            free(mapped);
        }
    } else {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemSetAccess(uint64_t address, size_t bytes, const CUmemAccessDesc *access,
                            size_t count)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!access || count == 0 ||
        (access->flags != ACCESS_NONE && access->flags != ACCESS_READ &&
         access->flags != ACCESS_READ_WRITE))
        return CUDA_ERROR_INVALID_VALUE;
    if (access->location.type == CUDA_LOCATION_DEVICE &&
        check_device(process, &access->location) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    /* Access by other devices or the host, and read-only access, are not modelled. */
    if (count != 1 || access->location.type != CUDA_LOCATION_DEVICE || access->flags == ACCESS_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&process->lock);
    if (!is_covered(process, address, bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    list_for_each (it, &process->mapped_ranges) {
        struct mapped_range *m = list_entry(it, struct mapped_range, link);
        if (r != CUDA_SUCCESS || m->address < address || m->address >= address + bytes)
            continue;
        r = m->physical->ordinal == (unsigned)access->location.id
                ? set_access(process, m, (enum access_flags)access->flags)
                : CUDA_ERROR_NOT_SUPPORTED;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemGetAccess(unsigned long long *ret_flags, const CUmemLocation *location,
                            uint64_t address)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_flags || !location || location->type != CUDA_LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    const struct mapped_range *mapped = find_overlap(process, address, 1);
    if (!mapped)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *ret_flags =
            mapped->physical->ordinal == (unsigned)location->id ? mapped->access : ACCESS_NONE;
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemRetainAllocationHandle(struct physical **ret_handle, void *address)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&process->lock);
    struct mapped_range *mapped = find_overlap(process, (uint64_t)(uintptr_t)address, 1);
    if (mapped) {
        mapped->physical->references++;
        *ret_handle = mapped->physical;
    } else {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&process->lock);
    return r;
}

CUDA_API int cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret_properties,
                                                    struct physical *handle)
{
    struct process *process;
    int r = physical_resolve(handle, &process);
    if (r == CUDA_SUCCESS && !ret_properties)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *ret_properties = (CUmemAllocationProp){
            .type = CUDA_ALLOCATION_PINNED,
            .requestedHandleTypes =
                handle->fd >= 0 && !handle->is_imported ? CUDA_HANDLE_POSIX_FD : 0,
            .location = {CUDA_LOCATION_DEVICE, (int)handle->ordinal},
        };
    return r;
}

/* Returns a descriptor that the program owns and closes. */
CUDA_API int cuMemExportToShareableHandle(void *ret_fd, struct physical *handle, int type,
                                          unsigned long long flags)
{
    struct process *process;
    int r = physical_resolve(handle, &process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_fd || flags != 0 || type != CUDA_HANDLE_POSIX_FD || handle->fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)ret_fd = fd;
    return CUDA_SUCCESS;
}

/* Reads the trailer in the descriptor's file. */
static int read_trailer(const struct process *process, int fd, struct physical *ret_physical)
{
    struct shared_trailer trailer;
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size <= (off_t)sizeof(trailer) ||
        pread(fd, &trailer, sizeof(trailer), status.st_size - (off_t)sizeof(trailer)) !=
            (ssize_t)sizeof(trailer) ||
        trailer.magic != SHARED_MAGIC ||
        trailer.bytes != (uint64_t)status.st_size - sizeof(trailer))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < process->device_count; i++) {
        if (process->devices[i].device.index != trailer.device)
            continue;
        *ret_physical =
            (struct physical){.ordinal = i, .bytes = trailer.bytes, .is_imported = true};
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

/* The exporting process is charged for the memory. The program keeps the descriptor. */
CUDA_API int cuMemImportFromShareableHandle(struct physical **ret_handle, void *fd, int type)
{
    struct process *process;
    struct physical imported;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    if (!ret_handle || type != CUDA_HANDLE_POSIX_FD)
        return CUDA_ERROR_INVALID_VALUE;
    r = read_trailer(process, (int)(intptr_t)fd, &imported);
    if (r != CUDA_SUCCESS)
        return r;
    imported.fd = fcntl((int)(intptr_t)fd, F_DUPFD_CLOEXEC, 0);
    if (imported.fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    pthread_mutex_lock(&process->lock);
    r = enter_physical(process, &imported, ret_handle);
    pthread_mutex_unlock(&process->lock);
    if (r != CUDA_SUCCESS)
        close(imported.fd);
    return r;
}
