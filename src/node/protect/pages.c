#include "node/protect/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

enum {
    SEALS_OF_SIZE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    SEALS = SEALS_OF_SIZE | F_SEAL_FUTURE_WRITE,
    FILE_BYTES_MAX = 1 << 20, /* bytes of a page of any version */
    UUID_BYTES = 16,
};

static void fill_header(struct page_header *header, enum page_magic magic, size_t bytes,
                        uint64_t features)
{
    *header = (struct page_header){.magic = magic,
                                   .version = PAGE_VERSION,
                                   .size_bytes = (uint32_t)bytes,
                                   .features = features};
}

/* Makes a page. The mapping precedes the seals, so that it stays writable, as the last such
 * mapping. */
static int make(struct error *e, const char *name, size_t bytes, int seals, int *ret_fd,
                void **ret_page)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *page = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED || fcntl(fd, F_ADD_SEALS, seals) < 0) {
        int failed = errno;
        if (page != MAP_FAILED)
            munmap(page, bytes);
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, ERR_NO_MEMORY, failed, "no memory to share with its processes");
    }
    *ret_fd = fd;
    *ret_page = page;
    return 0;
}

int pages_make_limits(struct error *e, struct limits_mapping *ret)
{
    void *page;
    int fd;
    int r = make(e, "gpumux-limits", sizeof *ret->page, SEALS, &fd, &page);
    if (r < 0)
        return r;
    *ret = (struct limits_mapping){.fd = fd, .page = page};
    fill_header(&ret->page->header, PAGE_LIMITS, sizeof *ret->page,
                LIMITS_HAS_QUOTA | LIMITS_HAS_WINDOW | LIMITS_HAS_RATE | LIMITS_HAS_LEASE |
                    LIMITS_HAS_OVERHEAD | LIMITS_HAS_DUE | LIMITS_HAS_ADVICE | LIMITS_HAS_SWAP);
    return 0;
}

static uint64_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

int pages_make_ledger(struct error *e, struct ledger_mapping *ret)
{
    void *page;
    int fd;
    int r = make(e, "gpumux-ledger", sizeof *ret->page, SEALS_OF_SIZE, &fd, &page);
    if (r < 0)
        return r;
    *ret = (struct ledger_mapping){.fd = fd, .inode = inode_of(fd), .page = page};
    fill_header(&ret->page->header, PAGE_LEDGER, sizeof *ret->page, LEDGER_HAS_OWNERS);
    return 0;
}

/* Maps the file over zeros: the page of an older writer is shorter, and its missing members read as
 * zero. Returns NULL if the file cannot be a page. */
static void *map(int fd, size_t bytes, int protection, size_t *ret_file_bytes)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct page_header) ||
        st.st_size > FILE_BYTES_MAX)
        return NULL;
    size_t file_bytes = (size_t)st.st_size < bytes ? (size_t)st.st_size : bytes;
    char *page = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (mmap(page, file_bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(page, bytes);
        return NULL;
    }
    *ret_file_bytes = file_bytes;
    return page;
}

/* Returns whether the file is a sealed page of at least file_bytes. */
static bool is_page(int fd, int seals, const struct page_header *header, enum page_magic magic,
                    size_t file_bytes)
{
    struct stat st;
    int have = fcntl(fd, F_GET_SEALS);
    return have >= 0 && (have & seals) == seals && fstat(fd, &st) == 0 &&
           st.st_size >= (off_t)file_bytes && header->magic == magic &&
           header->version == PAGE_VERSION && header->size_bytes <= (size_t)st.st_size;
}

int pages_take_ledger(int fd, struct ledger_mapping *ret)
{
    const size_t bytes = sizeof *ret->page;
    size_t file_bytes;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -ERR_PROTOCOL;
    struct ledger_page *page = map(fd, bytes, PROT_READ | PROT_WRITE, &file_bytes);
    if (!page)
        return -ERR_PROTOCOL;
    if (!is_page(fd, F_SEAL_SHRINK, &page->header, PAGE_LEDGER, file_bytes)) {
        munmap(page, bytes);
        return -ERR_PROTOCOL;
    }
    *ret = (struct ledger_mapping){.fd = fd, .inode = inode_of(fd), .page = page};
    return 0;
}

int pages_take_status(int fd, struct status_mapping *ret)
{
    const size_t bytes = sizeof *ret->page;
    /* Writable where still possible, to complete what a process leaves undone; not written before
     * it is sealed. */
    int protection = PROT_READ | PROT_WRITE;
    size_t file_bytes;
    struct status_page *page = map(fd, bytes, protection, &file_bytes);
    if (!page) {
        protection = PROT_READ;
        page = map(fd, bytes, protection, &file_bytes);
    }
    if (!page)
        return -ERR_PROTOCOL;
    (void)fcntl(fd, F_ADD_SEALS, SEALS); /* fails if already sealed; is_page() checks the result */
    if (!is_page(fd, SEALS, &page->header, PAGE_STATUS, file_bytes)) {
        munmap(page, bytes);
        return -ERR_PROTOCOL;
    }
    *ret = (struct status_mapping){
        .fd = fd, .page = page, .writable = protection & PROT_WRITE ? page : NULL};
    return 0;
}

static void drop(int *fd, void *page, size_t bytes)
{
    if (*fd < 0)
        return;
    munmap(page, bytes);
    close(*fd);
    *fd = -1;
}

void limits_done(struct limits_mapping *limits)
{
    drop(&limits->fd, limits->page, sizeof *limits->page);
    limits->page = NULL;
}

void ledger_done(struct ledger_mapping *ledger)
{
    drop(&ledger->fd, ledger->page, sizeof *ledger->page);
    ledger->page = NULL;
}

void status_done(struct status_mapping *status)
{
    drop(&status->fd, (void *)(uintptr_t)status->page, sizeof *status->page);
    status->page = NULL;
    status->writable = NULL;
}

void status_clear_marks(const struct status_mapping *status)
{
    struct status_page *page = status->writable;
    if (!page)
        return;
    atomic_store(&page->open_streams, 0);
    for (int i = 0; i < PAGE_STREAMS_MAX; i++)
        atomic_store(&page->started[i], atomic_load(&page->completed[i]));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool pages_parse_uuid(const char *text, uint8_t ret_uuid[16])
{
    uint8_t uuid[UUID_BYTES];
    size_t count = 0;
    if (!str_starts_with(text, "GPU-"))
        return false;
    for (text += 4; *text; text++) {
        int digit = hex_digit(*text);
        if (*text == '-')
            continue;
        if (digit < 0 || count == 2 * UUID_BYTES)
            return false;
        uuid[count / 2] = (uint8_t)(count % 2 ? uuid[count / 2] << 4 | digit : digit);
        count++;
    }
    if (count != 2 * UUID_BYTES)
        return false;
    memcpy(ret_uuid, uuid, sizeof uuid);
    return true;
}
