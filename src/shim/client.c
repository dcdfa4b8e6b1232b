#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "abi/register.h"
#include "shim/client.h"
#include "shim/sys.h"

enum {
    RETRY_MS = 20,
    ANSWER_MS = 200, /* beyond the wait, for an agent that was reached at its end */
    MS_NS = 1000000,
};

/* ---- pages ---- */

/* The page of fd, seen as `bytes` long: what the file lacks of that reads as 0, which is what a field
 * that the writer did not know means. NULL: it is not such a page. */
static void *map_page(int fd, uint32_t magic, size_t bytes, int protection)
{
    struct stat file;
    if (sys_call(SYS_fstat, fd, (long)&file, 0, 0, 0, 0) < 0 ||
        file.st_size < (off_t)sizeof(struct page_header))
        return NULL;
    size_t file_bytes = (size_t)file.st_size < bytes ? (size_t)file.st_size : bytes;
    char *page = sys_mmap(bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!page)
        return NULL;
    long r =
        sys_call(SYS_mmap, (long)page, (long)file_bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    const struct page_header *header = (const struct page_header *)page;
    if (r < 0 || header->magic != magic || header->version != PAGE_VERSION) {
        (void)sys_munmap(page, bytes);
        return NULL;
    }
    return page;
}

static void unmap_pages(struct client *client)
{
    if (client->limits)
        (void)sys_munmap(client->limits, sizeof(*client->limits));
    if (client->status)
        (void)sys_munmap(client->status, sizeof(*client->status));
    if (client->ledger)
        (void)sys_munmap(client->ledger, sizeof(*client->ledger));
    client->limits = NULL;
    client->status = NULL;
    client->ledger = NULL;
}

static void fill_header(struct page_header *header, uint32_t magic, size_t bytes)
{
    header->magic = magic;
    header->version = PAGE_VERSION;
    header->size_bytes = (uint32_t)bytes;
}

static void fill_status(struct status_page *status)
{
    fill_header(&status->header, PAGE_STATUS, sizeof(*status));
    status->pid = (uint32_t)sys_getpid();
    atomic_store(&status->state, STATUS_RUNNING);
}

/* ---- without an agent ---- */

/* A number of bytes, or 0: unset, not a number, or no limit. */
static uint64_t read_bytes(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number = 0;
    if (!text || !*text)
        return 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
            return 0;
    }
    return number;
}

static bool start_privately(struct client *client)
{
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    struct limits_page *limits = sys_mmap(sizeof(*limits), protection, flags, -1);
    client->limits = limits;
    client->status = sys_mmap(sizeof(*client->status), protection, flags, -1);
    client->ledger = sys_mmap(sizeof(*client->ledger), protection, flags, -1);
    if (!limits || !client->status || !client->ledger) {
        unmap_pages(client);
        return false;
    }
    uint64_t quota_bytes = read_bytes("GPUMUX_QUOTA_BYTES");
    fill_header(&limits->header, PAGE_LIMITS, sizeof(*limits));
    limits->header.features = LIMITS_HAS_QUOTA;
    atomic_store(&limits->kind, LIMITS_TASK);
    atomic_store(&limits->slot_count, 1);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        atomic_store(&limits->devices[i].quota_bytes, quota_bytes);
    fill_header(&client->ledger->header, PAGE_LEDGER, sizeof(*client->ledger));
    fill_status(client->status);
    return true;
}

/* ---- with an agent ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / MS_NS;
}

static void sleep_ms(int ms)
{
    const struct timespec time = {.tv_nsec = (long)ms * MS_NS};
    (void)sys_call(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

static bool fill_address(const char *path, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(ret_address->sun_path))
        return false;
    memcpy(ret_address->sun_path, path, length);
    return true;
}

/* Where there is no socket yet, no listener, or too many at once, there may be one in a moment: the
 * agent starts anew, or two hundred processes do. */
static int connect_to_agent(const char *path, int64_t deadline_ms)
{
    struct sockaddr_un address;
    if (!fill_address(path, &address))
        return -EINVAL;
    for (;;) {
        int fd = (int)sys_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
                               0, 0, 0, 0);
        if (fd < 0)
            return fd;
        int r = (int)sys_call(SYS_connect, fd, (long)&address, sizeof(address), 0, 0, 0);
        if (r == 0)
            return fd;
        (void)sys_close(fd);
        if (now_ms() >= deadline_ms)
            return r;
        sleep_ms(RETRY_MS);
    }
}

/* One message with one file descriptor. */
static bool send_hello(int fd, int status_fd)
{
    struct register_hello hello = {
        .header = {.magic = REGISTER_MAGIC,
                   .version = REGISTER_VERSION,
                   .kind = REGISTER_HELLO,
                   .size_bytes = sizeof(hello)},
        .page_version = PAGE_VERSION,
    };
    const char *mark = getenv("GPUMUX_MARK");
    for (size_t i = 0; mark && mark[i] && i + 1 < sizeof(hello.mark); i++)
        hello.mark[i] = mark[i];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {&hello, sizeof(hello)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *fds = CMSG_FIRSTHDR(&message);
    fds->cmsg_level = SOL_SOCKET;
    fds->cmsg_type = SCM_RIGHTS;
    fds->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(fds), &status_fd, sizeof(int));
    return sys_call(SYS_sendmsg, fd, (long)&message, MSG_NOSIGNAL, 0, 0, 0) == (long)sizeof(hello);
}

union packet {
    struct register_header header;
    struct register_welcome welcome;
    struct register_refused refused;
    char bytes[REGISTER_PACKET_MAX];
};

static void close_all(const int *fds)
{
    for (int i = 0; i < REGISTER_FDS_MAX; i++) {
        if (fds[i] >= 0)
            (void)sys_close(fds[i]);
    }
}

/* The next packet, zero behind its end; fds that did not come are -1. False, with nothing to be closed:
 * none came in time, or the other side speaks another language. */
static bool receive(int fd, int64_t deadline_ms, union packet *ret_packet,
                    int ret_fds[REGISTER_FDS_MAX])
{
    union {
        char bytes[CMSG_SPACE(REGISTER_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {ret_packet, sizeof(*ret_packet)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    long count;
    memset(ret_packet, 0, sizeof(*ret_packet));
    while ((count = sys_call(SYS_recvmsg, fd, (long)&message, MSG_CMSG_CLOEXEC, 0, 0, 0)) ==
               -EAGAIN ||
           count == -EINTR) {
        struct pollfd answer = {.fd = fd, .events = POLLIN};
        int64_t left_ms = deadline_ms - now_ms();
        if (left_ms <= 0)
            return false;
        (void)sys_call(SYS_poll, (long)&answer, 1, left_ms, 0, 0, 0);
    }
    for (int i = 0; i < REGISTER_FDS_MAX; i++)
        ret_fds[i] = -1;
    const struct cmsghdr *fds = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (fds && fds->cmsg_level == SOL_SOCKET && fds->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fds, CMSG_DATA(fds), fds->cmsg_len - CMSG_LEN(0));
    if (count >= (long)sizeof(struct register_header) &&
        ret_packet->header.magic == REGISTER_MAGIC &&
        ret_packet->header.version == REGISTER_VERSION)
        return true;
    close_all(ret_fds);
    return false;
}

static int make_status(struct client *client)
{
    int fd = (int)sys_call(SYS_memfd_create, (long)"gpumux-status", MFD_CLOEXEC | MFD_ALLOW_SEALING,
                           0, 0, 0, 0);
    if (fd < 0)
        return fd;
    if (sys_call(SYS_ftruncate, fd, sizeof(*client->status), 0, 0, 0, 0) == 0)
        client->status = sys_mmap(sizeof(*client->status), PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (!client->status) {
        (void)sys_close(fd);
        return -ENOMEM;
    }
    fill_status(client->status);
    return fd;
}

static bool take_welcome(struct client *client, const union packet *packet, const int *fds)
{
    if (packet->header.kind != REGISTER_WELCOME || packet->welcome.slot >= PAGE_PROCESSES_MAX)
        return false;
    client->slot = packet->welcome.slot;
    client->limits = map_page(fds[0], PAGE_LIMITS, sizeof(*client->limits), PROT_READ);
    client->ledger = map_page(fds[1], PAGE_LEDGER, sizeof(*client->ledger), PROT_READ | PROT_WRITE);
    client->status->slot = client->slot;
    return client->limits && client->ledger;
}

static uint64_t inode_of(int fd)
{
    struct stat file;
    return sys_call(SYS_fstat, fd, (long)&file, 0, 0, 0, 0) < 0 ? 0 : file.st_ino;
}

/* Until the answer: what else a newer agent may say is not for this shim. */
static bool await_welcome(struct client *client, int fd, int64_t deadline_ms)
{
    union packet packet;
    int fds[REGISTER_FDS_MAX];
    while (receive(fd, deadline_ms, &packet, fds)) {
        bool is_answer =
            packet.header.kind == REGISTER_WELCOME || packet.header.kind == REGISTER_REFUSED;
        bool is_welcome = is_answer && take_welcome(client, &packet, fds);
        close_all(fds);
        if (is_answer)
            return is_welcome;
    }
    return false;
}

static bool register_with_agent(struct client *client, const char *path, int wait_ms)
{
    int64_t deadline_ms = now_ms() + wait_ms;
    int status_fd = make_status(client);
    int fd = status_fd < 0 ? -1 : connect_to_agent(path, deadline_ms);
    client->is_registered =
        fd >= 0 && send_hello(fd, status_fd) && await_welcome(client, fd, deadline_ms + ANSWER_MS);
    if (status_fd >= 0)
        (void)sys_close(status_fd);
    if (client->is_registered) {
        client->socket = fd;
        client->socket_file = inode_of(fd);
        return true;
    }
    if (fd >= 0)
        (void)sys_close(fd);
    unmap_pages(client);
    return false;
}

bool client_start(struct client *client, int wait_ms)
{
    const char *path = getenv("GPUMUX_REGISTER");
    *client = (struct client){.socket = -1};
    if (path && *path) {
        if (register_with_agent(client, path, wait_ms))
            return true;
        if (read_bytes("GPUMUX_QUOTA_BYTES") == 0)
            return false;
    }
    return start_privately(client);
}

void client_leave(struct client *client)
{
    if (client->socket >= 0 && inode_of(client->socket) == client->socket_file)
        (void)sys_close(client->socket);
    client->socket = -1;
    unmap_pages(client);
}
