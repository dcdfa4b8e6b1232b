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
#include "shim/life/client.h"
#include "shim/life/files.h"
#include "shim/life/pages.h"
#include "shim/sys/sys.h"

enum {
    RETRY_MS = 20,
    ANSWER_MS = 200, /* extra wait for an agent with many processes to answer */
    AGAIN_MS = 500,  /* wait for a new agent's answer, which delays a launch */
    REJOIN_MS = 1000,
    MS_NS = 1000000,
};

/* ---- pages ---- */

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
    status->header.features =
        STATUS_HAS_MARKS | STATUS_HAS_SHUT | STATUS_HAS_BURSTS | STATUS_HAS_SWAP;
    status->pid = (uint32_t)sys_getpid();
    atomic_store(&status->state, STATUS_RUNNING);
}

static uint64_t inode_of(int fd)
{
    struct stat file;
    return sys_call(SYS_fstat, fd, (long)&file, 0, 0, 0, 0) < 0 ? 0 : file.st_ino;
}

static struct client_file keep_file(int fd)
{
    return (struct client_file){fd, inode_of(fd)};
}

static bool is_same(const struct client_file *file)
{
    return file->fd >= 0 && inode_of(file->fd) == file->inode;
}

static void drop_file(struct client_file *file)
{
    if (is_same(file))
        (void)sys_close(file->fd);
    file->fd = -1;
}

/* ---- without an agent ---- */

/* Returns the variable's number, or 0 if the variable is unset or no number; 0 is no limit. */
static uint64_t read_number(const char *variable)
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

static uint32_t read_small(const char *variable)
{
    uint64_t number = read_number(variable);
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* Fills limits from the environment. `is_promised`: there should have been an agent, so the least
 * window applies. */
static void fill_limits(struct limits_page *limits, bool is_promised)
{
    uint32_t window_us = read_small("GPUMUX_WINDOW_US");
    const char *kind = getenv("GPUMUX_KIND");
    fill_header(&limits->header, PAGE_LIMITS, sizeof(*limits));
    limits->header.features = LIMITS_HAS_QUOTA | LIMITS_HAS_WINDOW | LIMITS_HAS_RATE;
    atomic_store(&limits->kind,
                 kind && strcmp(kind, "service") == 0 ? LIMITS_SERVICE : LIMITS_TASK);
    atomic_store(&limits->slot_count, 1);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
        struct limits_device *device = &limits->devices[i];
        atomic_store(&device->quota_bytes, read_number("GPUMUX_QUOTA_BYTES"));
        atomic_store(&device->window_us,
                     window_us == 0 && is_promised ? CLIENT_WINDOW_US : window_us);
        atomic_store(&device->gate_us_max, read_small("GPUMUX_GATE_US"));
        atomic_store(&device->linger_us, read_small("GPUMUX_LINGER_US"));
        atomic_store(&device->rate_permille, read_small("GPUMUX_RATE_PERMILLE"));
    }
}

static bool start_privately(struct client *client, bool is_promised)
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
    fill_limits(limits, is_promised);
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

/* Connects to the agent. Without a socket or a listener, or with a full queue, tries again: the
 * agent restarts, or hundreds of processes start. A socket without a listener belongs to an agent
 * that will come back: waits for it until away_deadline_ms, and then returns -ECONNREFUSED. */
static int connect_to_agent(const char *path, int64_t deadline_ms, int64_t away_deadline_ms)
{
    struct sockaddr_un address;
    /* There was an agent; its socket is missing for a moment while its successor makes a new
     * one. */
    bool has_been = false;
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
        has_been |= r == -ECONNREFUSED || r == -EAGAIN;
        if (now_ms() >= (has_been ? away_deadline_ms : deadline_ms))
            return has_been ? -ECONNREFUSED : r;
        sleep_ms(RETRY_MS);
    }
}

/* The socket does not block. */
static bool send_packet(int fd, const void *packet, size_t bytes, const int *fds, size_t fd_count)
{
    union {
        char bytes[CMSG_SPACE(REGISTER_FILES_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)packet, bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(fd_count * sizeof(int))};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    return sys_call(SYS_sendmsg, fd, (long)&message, MSG_NOSIGNAL, 0, 0, 0) == (long)bytes;
}

/* Sends HELLO with the status page and, when registering again, the ledger. */
static bool send_hello(const struct client *client, int fd, bool is_again)
{
    struct register_hello hello = {
        .header = {.magic = REGISTER_MAGIC,
                   .version = REGISTER_VERSION,
                   .kind = REGISTER_HELLO,
                   .size_bytes = sizeof(hello)},
        .page_version = PAGE_VERSION,
        .again = is_again,
        .slot = client->slot,
    };
    const char *mark = getenv("GPUMUX_MARK");
    for (size_t i = 0; mark && mark[i] && i + 1 < sizeof(hello.mark); i++)
        hello.mark[i] = mark[i];
    const int fds[REGISTER_FDS_MAX] = {client->status_file.fd, client->ledger_file.fd};
    return send_packet(fd, &hello, sizeof(hello), fds, is_again ? 2 : 1);
}

union packet {
    struct register_header header;
    struct register_welcome welcome;
    struct register_refused refused;
    struct register_neighbour neighbour;
    struct register_gone gone;
    char bytes[REGISTER_PACKET_MAX];
};

static void close_all(const int *fds)
{
    for (int i = 0; i < REGISTER_FDS_MAX; i++) {
        if (fds[i] >= 0)
            (void)sys_close(fds[i]);
    }
}

enum receipt {
    RECEIPT_PACKET,
    RECEIPT_NONE,    /* no packet in time */
    RECEIPT_END,     /* the other side has gone */
    RECEIPT_FOREIGN, /* not a packet of this protocol */
};

/* Receives the next packet, zeroed behind its end; missing descriptors are -1. Without a packet,
 * the caller has no descriptors to close. */
static enum receipt receive(int fd, int64_t deadline_ms, union packet *ret_packet,
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
            return RECEIPT_NONE;
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
        return RECEIPT_PACKET;
    close_all(ret_fds);
    return count > 0 ? RECEIPT_FOREIGN : RECEIPT_END;
}

static bool make_status(struct client *client)
{
    int fd = (int)sys_call(SYS_memfd_create, (long)"gpumux-status", MFD_CLOEXEC | MFD_ALLOW_SEALING,
                           0, 0, 0, 0);
    if (fd < 0)
        return false;
    client->status_file = keep_file(fd);
    if (sys_call(SYS_ftruncate, fd, sizeof(*client->status), 0, 0, 0, 0) == 0)
        client->status = sys_mmap(sizeof(*client->status), PROT_READ | PROT_WRITE, MAP_SHARED, fd);
    if (client->status)
        fill_status(client->status);
    return client->status;
}

enum answer {
    ANSWER_NONE,
    ANSWER_WELCOME,
    ANSWER_REFUSED,
    ANSWER_LATER, /* no room, or the agent has ended: try again later */
};

/* Waits for WELCOME or REFUSED, and ignores other packets. The caller owns the descriptors of a
 * WELCOME. */
static enum answer await_answer(int fd, int64_t deadline_ms, union packet *ret_packet,
                                int ret_fds[REGISTER_FDS_MAX])
{
    enum receipt receipt;
    while ((receipt = receive(fd, deadline_ms, ret_packet, ret_fds)) == RECEIPT_PACKET) {
        if (ret_packet->header.kind == REGISTER_WELCOME &&
            ret_packet->welcome.slot < PAGE_PROCESSES_MAX)
            return ANSWER_WELCOME;
        close_all(ret_fds);
        if (ret_packet->header.kind == REGISTER_REFUSED)
            return ret_packet->refused.reason == REGISTER_FULL ? ANSWER_LATER : ANSWER_REFUSED;
        if (ret_packet->header.kind == REGISTER_WELCOME)
            return ANSWER_REFUSED;
    }
    if (receipt == RECEIPT_NONE)
        /* The agent is there but silent, and may have other processes of the attempt. */
        return ANSWER_REFUSED;
    return receipt == RECEIPT_END ? ANSWER_LATER : ANSWER_NONE;
}

static bool take_welcome(struct client *client, const union packet *packet, const int *fds)
{
    client->limits = pages_map(fds[0], PAGE_LIMITS, sizeof(*client->limits), PROT_READ);
    client->ledger =
        pages_map(fds[1], PAGE_LEDGER, sizeof(*client->ledger), PROT_READ | PROT_WRITE);
    (void)sys_close(fds[0]);
    client->ledger_file = keep_file(fds[1]);
    client->slot = packet->welcome.slot;
    client->status->slot = client->slot;
    return client->limits && client->ledger;
}

/* Tries once to register. Without a WELCOME, *client is as before client_start(). */
static enum answer try_to_register(struct client *client, const char *path, int wait_ms,
                                   int64_t away_deadline_ms)
{
    union packet packet;
    int fds[REGISTER_FDS_MAX];
    enum answer answer = ANSWER_NONE;
    *client = (struct client){.socket.fd = -1, .status_file.fd = -1, .ledger_file.fd = -1};
    int fd =
        make_status(client) ? connect_to_agent(path, now_ms() + wait_ms, away_deadline_ms) : -1;
    /* There was an agent, and other processes of the attempt may have its limits. */
    if (fd == -ECONNREFUSED) {
        answer = ANSWER_LATER;
    } else if (fd >= 0) {
        int64_t deadline_ms = now_ms() + wait_ms + ANSWER_MS;
        if (deadline_ms < away_deadline_ms)
            deadline_ms = away_deadline_ms;
        client->socket = keep_file(fd);
        answer = send_hello(client, fd, false) ? await_answer(fd, deadline_ms, &packet, fds)
                                               : ANSWER_LATER;
    }
    if (answer == ANSWER_WELCOME && !take_welcome(client, &packet, fds))
        answer = ANSWER_REFUSED;
    client->is_registered = answer == ANSWER_WELCOME;
    if (!client->is_registered)
        client_leave(client);
    return answer;
}

/* Registers now or, while the agent is away or has no room, later. */
static enum answer register_with_agent(struct client *client, const char *path, int wait_ms)
{
    int64_t away_deadline_ms = now_ms() + (wait_ms > 0 ? CLIENT_AWAY_MS : 0);
    for (;;) {
        enum answer answer = try_to_register(client, path, wait_ms, away_deadline_ms);
        if (answer != ANSWER_LATER || now_ms() >= away_deadline_ms)
            return answer;
        sleep_ms(RETRY_MS);
    }
}

bool client_start(struct client *client, int wait_ms)
{
    const char *path = getenv("GPUMUX_REGISTER");
    bool is_promised = path && *path;
    *client = (struct client){.socket.fd = -1, .status_file.fd = -1, .ledger_file.fd = -1};
    if (is_promised) {
        enum answer answer = register_with_agent(client, path, wait_ms);
        if (answer == ANSWER_WELCOME)
            return true;
        /* If an agent refused the process, or is away, other processes share a quota: this process
         * must not use a quota of its own beside it. */
        if (answer != ANSWER_NONE || read_number("GPUMUX_QUOTA_BYTES") == 0)
            return false;
    }
    return start_privately(client, is_promised);
}

void client_leave(struct client *client)
{
    drop_file(&client->socket);
    drop_file(&client->status_file);
    drop_file(&client->ledger_file);
    neighbours_forget(&client->neighbours);
    unmap_pages(client);
}

/* ---- after registration ---- */

/* Tries again if another thread closes one of the files meanwhile. */
void client_show_files(struct client *client)
{
    enum { TRIES = 3 };
    const struct register_header packet = {.magic = REGISTER_MAGIC,
                                           .version = REGISTER_VERSION,
                                           .kind = REGISTER_FILES,
                                           .size_bytes = sizeof(packet)};
    int fds[REGISTER_FILES_MAX];
    for (int i = 0; i < TRIES && client->is_registered && is_same(&client->socket); i++) {
        size_t count = files_of_devices(fds, REGISTER_FILES_MAX);
        if (count == 0 || send_packet(client->socket.fd, &packet, sizeof(packet), fds, count))
            return;
    }
}

static void count(struct client *client, enum status_counter counter)
{
    atomic_fetch_add_explicit(&client->status->counters[counter], 1, memory_order_relaxed);
}

static void take_message(struct client *client, const union packet *packet, const int *fds)
{
    if (packet->header.kind == REGISTER_NEIGHBOUR) {
        neighbours_add(&client->neighbours, packet->neighbour.number, packet->neighbour.device,
                       fds[0]);
        count(client, STATUS_neighbours);
    } else if (packet->header.kind == REGISTER_GONE) {
        neighbours_remove(&client->neighbours, packet->gone.number);
    }
}

void client_listen(struct client *client)
{
    union packet packet;
    int fds[REGISTER_FDS_MAX];
    if (!lock_try(&client->lock))
        return;
    /* This order misses no message that arrives meanwhile. */
    atomic_store(&client->messages_seen, atomic_load(&client->limits->messages));
    while (is_same(&client->socket) &&
           receive(client->socket.fd, 0, &packet, fds) == RECEIPT_PACKET) {
        take_message(client, &packet, fds);
        close_all(fds);
    }
    lock_release(&client->lock);
}

static bool is_agent_there(const struct client *client)
{
    struct pollfd agent = {.fd = client->socket.fd};
    return is_same(&client->socket) && !(sys_call(SYS_poll, (long)&agent, 1, 0, 0, 0, 0) == 1 &&
                                         (agent.revents & (POLLHUP | POLLERR)));
}

/* Replaces only the limits. The ledger stays, since it counts the held memory. */
static bool take_new_limits(struct client *client, const union packet *packet, const int *fds)
{
    const size_t bytes = sizeof(*client->limits);
    void *limits = packet->welcome.slot == client->slot
                       ? pages_map(fds[0], PAGE_LIMITS, bytes, PROT_READ)
                       : NULL;
    return limits && pages_replace((void *)(uintptr_t)client->limits, limits, bytes);
}

static bool rejoin(struct client *client)
{
    const char *path = getenv("GPUMUX_REGISTER");
    union packet packet;
    int fds[REGISTER_FDS_MAX];
    int fd = path && is_same(&client->status_file) && is_same(&client->ledger_file)
                 ? connect_to_agent(path, 0, 0)
                 : -1;
    if (fd < 0)
        return false;
    if (send_hello(client, fd, true) &&
        await_answer(fd, now_ms() + AGAIN_MS, &packet, fds) == ANSWER_WELCOME) {
        bool is_new = take_new_limits(client, &packet, fds);
        close_all(fds);
        if (is_new) {
            drop_file(&client->socket);
            client->socket = keep_file(fd);
            atomic_store(&client->messages_seen, 0);
            count(client, STATUS_rejoins);
            client_show_files(client);
            return true;
        }
    }
    (void)sys_close(fd);
    return false;
}

bool client_check(struct client *client)
{
    bool is_new = false;
    if (!client->is_registered || is_agent_there(client) || !lock_try(&client->lock))
        return false;
    if (now_ms() - client->tried_ms >= REJOIN_MS) {
        client->tried_ms = now_ms();
        is_new = rejoin(client);
    }
    lock_release(&client->lock);
    return is_new;
}
