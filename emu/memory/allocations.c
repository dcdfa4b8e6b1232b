#include "emu/memory/allocations.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

/* Returns the index of the first allocation above `address`. */
static size_t place_above(const struct allocations *a, uint64_t address)
{
    size_t low = 0, high = a->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (a->sorted[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow(struct allocations *a)
{
    if (a->count < a->capacity)
        return 0;
    size_t capacity = a->capacity ? a->capacity * 2 : 64;
    if (capacity > ALLOCATIONS_MAX)
        return -ERR_NO_MEMORY;
    struct allocation *sorted = realloc(a->sorted, capacity * sizeof(*sorted));
    if (!sorted)
        return -ERR_NO_MEMORY;
    a->sorted = sorted;
    a->capacity = capacity;
    return 0;
}

/* The host cannot access device memory; it can access managed memory. */
static void *reserve(const struct allocation *what)
{
    int access = what->kind == ALLOCATION_MANAGED ? PROT_READ | PROT_WRITE : PROT_NONE;
    return mmap(NULL, what->span_bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int allocations_add(struct allocations *a, const struct allocation *what, uint64_t *ret_address)
{
    int r = grow(a);
    if (r < 0)
        return r;
    struct allocation added = *what;
    if (what->kind != ALLOCATION_MAPPED) {
        void *at = reserve(what);
        if (at == MAP_FAILED)
            return -ERR_NO_MEMORY;
        added.address = (uint64_t)(uintptr_t)at;
        if (what->kind == ALLOCATION_MANAGED)
            added.backing = at;
    }
    size_t place = place_above(a, added.address);
    memmove(&a->sorted[place + 1], &a->sorted[place], (a->count - place) * sizeof(*a->sorted));
    a->sorted[place] = added;
    a->count++;
    if (ret_address)
        *ret_address = added.address;
    return 0;
}

struct allocation *allocations_find(struct allocations *a, uint64_t address, uint64_t bytes)
{
    size_t place = place_above(a, address);
    if (place == 0)
        return NULL;
    struct allocation *found = &a->sorted[place - 1];
    uint64_t offset = address - found->address;
    return offset <= found->bytes && bytes <= found->bytes - offset ? found : NULL;
}

struct allocation *allocations_find_import(struct allocations *a, uint64_t inode,
                                           const struct context *context)
{
    for (size_t i = 0; i < a->count; i++) {
        struct allocation *at = &a->sorted[i];
        if (at->import_count > 0 && at->import_inode == inode && at->context == context)
            return at;
    }
    return NULL;
}

void allocations_remove(struct allocations *a, struct allocation *allocation)
{
    if (allocation->kind == ALLOCATION_DEVICE && allocation->backing) {
        munmap(allocation->backing, allocation->span_bytes);
        a->backed_bytes -= allocation->span_bytes;
    }
    if (allocation->share_fd > 0)
        close(allocation->share_fd);
    if (allocation->kind != ALLOCATION_MAPPED)
        munmap((void *)(uintptr_t)allocation->address, allocation->span_bytes);
    size_t place = (size_t)(allocation - a->sorted);
    a->count--;
    memmove(allocation, allocation + 1, (a->count - place) * sizeof(*allocation));
    if (a->count == 0) {
        free(a->sorted);
        *a = (struct allocations){0};
    }
}

static void *map_shared(const struct allocation *what, int fd)
{
    void *at = mmap(NULL, what->span_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

int allocations_import(struct allocations *a, const struct allocation *what, uint64_t *ret_address)
{
    struct allocation imported = *what;
    imported.backing = map_shared(what, what->share_fd);
    if (!imported.backing)
        return -ERR_NO_MEMORY;
    int r = allocations_add(a, &imported, ret_address);
    if (r < 0)
        munmap(imported.backing, what->span_bytes);
    else
        a->backed_bytes += what->span_bytes;
    return r;
}

int allocations_share(struct allocations *a, struct allocation *allocation)
{
    if (allocation->share_fd > 0)
        return 0;
    unsigned char *old = allocations_contents(a, allocation, allocation->address);
    int fd = old ? memfd_create("gpumux-memory", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return -ERR_NO_MEMORY;
    void *at =
        ftruncate(fd, (off_t)allocation->span_bytes) == 0 ? map_shared(allocation, fd) : NULL;
    if (!at) {
        close(fd);
        return -ERR_NO_MEMORY;
    }
    memcpy(at, old, allocation->bytes);
    munmap(old, allocation->span_bytes);
    allocation->backing = at;
    allocation->share_fd = fd;
    return 0;
}

unsigned char *allocations_contents(struct allocations *a, struct allocation *allocation,
                                    uint64_t address)
{
    if (!allocation->backing) {
        if (allocation->span_bytes > ALLOCATIONS_BACKED_BYTES_MAX - a->backed_bytes)
            return NULL;
        void *at = mmap(NULL, allocation->span_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return NULL;
        allocation->backing = at;
        a->backed_bytes += allocation->span_bytes;
    }
    return allocation->backing + (address - allocation->address);
}
