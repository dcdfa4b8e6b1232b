#include <sys/mman.h>
#include <sys/stat.h>

#include "abi/page.h"
#include "shim/life/pages.h"
#include "shim/sys/sys.h"

static long map_at(const void *place, size_t bytes, int protection, int flags, int fd)
{
    return sys_call(SYS_mmap, (long)place, (long)bytes, protection, flags | MAP_FIXED, fd, 0);
}

void *pages_map(int fd, uint32_t magic, size_t bytes, int protection)
{
    struct stat file;
    if (sys_call(SYS_fstat, fd, (long)&file, 0, 0, 0, 0) < 0 ||
        file.st_size < (off_t)sizeof(struct page_header))
        return NULL;
    size_t file_bytes = (size_t)file.st_size < bytes ? (size_t)file.st_size : bytes;
    char *page = sys_mmap(bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!page)
        return NULL;
    long r = map_at(page, file_bytes, protection, MAP_SHARED, fd);
    const struct page_header *header = (const struct page_header *)page;
    if (r < 0 || header->magic != magic || header->version != PAGE_VERSION) {
        (void)sys_munmap(page, bytes);
        return NULL;
    }
    return page;
}

/* Moves one page of memory at a time: a page whose file ends early consists of two mappings, and
 * mremap moves only one at once. */
bool pages_replace(void *place, void *page, size_t bytes)
{
    enum { STEP = 4096 };
    for (size_t at = 0; at < bytes; at += STEP) {
        long r = sys_call(SYS_mremap, (long)page + (long)at, STEP, STEP,
                          MREMAP_MAYMOVE | MREMAP_FIXED, (long)place + (long)at, 0);
        if (r < 0) {
            (void)sys_munmap((char *)page + at, bytes - at);
            return at > 0;
        }
    }
    return true;
}

void pages_clear(void *place, size_t bytes)
{
    (void)map_at(place, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}
