/*
 * An agent with nothing but its registration socket: it gives processes their pages, shows services
 * to tasks, and reports services that have gone. For tests and measurements of the shim without a
 * node. Needs only the C library: cc -D_GNU_SOURCE -Isrc tests/shim/registrar.c -o registrar
 *
 *   registrar --socket PATH [--window-us N] [--gate-us N] [--linger-us N] [--rate-permille N]
 *             [--share-percent N] [--quota-bytes N] [--lease-ms N] [--fence-ms N]
 *             [--gate-place 0|1] [--gate-rule 0|1] [--need-us N] [--each-us N] [--burst-us N]
 *             [--calm-us N] [--hold-ms N] [--company 0|1|2] [--target-us N] [--batch N]
 *             [--checkpoint N]
 *
 * A process belongs to the attempt that its GPUMUX_MARK names. A mark that begins with "service" is
 * a service's, any other a task's. The limits above apply to tasks, the lease also to services,
 * company and target only to services, the batch and the number of checkpoints to all. All devices
 * are one: number 0 of each process.
 *
 * Commands come on standard input, one per line: any option without its dashes (`window-us 100`,
 * `lease-ms 0`: no lease); `show`, which prints a line for every process with its counters, then
 * `end`; and `quit`. SIGTERM prints the same as `show` and ends the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "abi/page.h"
#include "abi/register.h"

enum { ATTEMPTS_MAX = 64, PEERS_MAX = 256, MS_NS = 1000000 };

/* Values of the options, by enum option. */
enum option {
    WINDOW,
    GATE,
    LINGER,
    RATE,
    SHARE,
    QUOTA,
    LEASE,
    FENCE,
    PLACE,
    RULE,
    NEED,
    EACH,
    BURST,
    CALM,
    HOLD,
    COMPANY,
    TARGET,
    BATCH,
    CHECKPOINT,
    OPTIONS
};
static const char *const option_names[OPTIONS] = {
    "window-us",   "gate-us",   "linger-us", "rate-permille", "share-percent",
    "quota-bytes", "lease-ms",  "fence-ms",  "gate-place",    "gate-rule",
    "need-us",     "each-us",   "burst-us",  "calm-us",       "hold-ms",
    "company",     "target-us", "batch",     "checkpoint",
};

struct attempt {
    char mark[128]; /* empty: none */
    bool is_service;
    struct limits_page *limits;
    int limits_fd, ledger_fd;
    uint32_t slot_count;
};

struct peer {
    struct attempt *attempt; /* NULL: no HELLO yet */
    int socket, pidfd, status_fd;
    int pid;
    uint32_t slot;
    const struct status_page *status;
    bool has_ended; /* its counters are kept */
};

struct registrar {
    uint64_t options[OPTIONS];
    int listener, signals;
    struct attempt attempts[ATTEMPTS_MAX];
    struct peer peers[PEERS_MAX];
    unsigned peer_count;
    bool is_ending, is_deaf;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t boot_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS_NS;
}

/* ---- pages ---- */

static void *make_page(const char *name, uint32_t magic, size_t bytes, int seals, int *ret_fd)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        fail(name);
    struct page_header *header = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED)
        fail(name);
    header->magic = magic;
    header->version = PAGE_VERSION;
    header->size_bytes = (uint32_t)bytes;
    if (fcntl(fd, F_ADD_SEALS, seals) != 0)
        fail(name);
    *ret_fd = fd;
    return header;
}

static void apply(const struct registrar *registrar, struct attempt *attempt)
{
    struct limits_page *limits = attempt->limits;
    const uint64_t *options = registrar->options;
    if (!attempt->is_service) {
        for (int i = 0; i < PAGE_DEVICES_MAX; i++) {
            struct limits_device *device = &limits->devices[i];
            device->window_us = (uint32_t)options[WINDOW];
            device->gate_us_max = (uint32_t)options[GATE];
            device->linger_us = (uint32_t)options[LINGER];
            device->gate_place = (uint32_t)options[PLACE];
            device->gate_rule = (uint32_t)options[RULE];
            device->need_us = (uint32_t)options[NEED];
            device->each_us = (uint32_t)options[EACH];
            device->burst_us = (uint32_t)options[BURST];
            device->calm_us = (uint32_t)options[CALM];
            device->hold_deadline_ms = options[HOLD];
            device->rate_permille = (uint32_t)options[RATE];
            device->share_percent = (uint32_t)options[SHARE];
            device->quota_bytes = options[QUOTA];
            device->mode = options[GATE] ? LIMITS_TIME : LIMITS_ALONE;
        }
    }
    limits->target_us = attempt->is_service ? options[TARGET] : 0;
    if (options[BATCH] || options[CHECKPOINT])
        limits->header.features |= LIMITS_HAS_ADVICE;
    if (limits->batch != options[BATCH] || limits->checkpoint != options[CHECKPOINT]) {
        limits->batch = options[BATCH];
        limits->checkpoint = options[CHECKPOINT];
        limits->advice_sequence++;
    }
    for (int i = 0; attempt->is_service && i < PAGE_DEVICES_MAX; i++)
        limits->devices[i].company = (uint32_t)options[COMPANY];
    limits->fence_ms = (uint32_t)options[FENCE];
    limits->lease_deadline_ms = options[LEASE];
    limits->sequence++;
}

static struct attempt *find_attempt(struct registrar *registrar, const char *mark)
{
    struct attempt *attempt = NULL;
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        struct attempt *other = &registrar->attempts[i];
        if (other->limits && strcmp(other->mark, mark) == 0)
            return other;
        if (!other->limits && !attempt)
            attempt = other;
    }
    if (!attempt)
        return NULL;
    int ledger_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    snprintf(attempt->mark, sizeof(attempt->mark), "%s", mark);
    attempt->is_service = strncmp(mark, "service", 7) == 0;
    attempt->limits = make_page("limits", PAGE_LIMITS, sizeof(*attempt->limits),
                                ledger_seals | F_SEAL_FUTURE_WRITE, &attempt->limits_fd);
    struct ledger_page *ledger =
        make_page("ledger", PAGE_LEDGER, sizeof(*ledger), ledger_seals, &attempt->ledger_fd);
    munmap(ledger, sizeof(*ledger));
    attempt->limits->header.features = LIMITS_HAS_QUOTA | LIMITS_HAS_WINDOW | LIMITS_HAS_RATE |
                                       LIMITS_HAS_LEASE | LIMITS_HAS_GATE_PLACE | LIMITS_HAS_DUE;
    attempt->limits->kind = attempt->is_service ? LIMITS_SERVICE : LIMITS_TASK;
    attempt->limits->sequence = boot_ms(); /* beyond that of an earlier registrar */
    apply(registrar, attempt);
    return attempt;
}

/* ---- messages ---- */

static void send_packet(const struct peer *peer, const void *packet, size_t bytes, int fd_count,
                        const int *fds)
{
    char control[CMSG_SPACE(REGISTER_FDS_MAX * sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)packet, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)fd_count * sizeof(int));
    }
    (void)sendmsg(peer->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static struct register_header header_of(int kind, size_t bytes)
{
    return (struct register_header){.magic = REGISTER_MAGIC,
                                    .version = REGISTER_VERSION,
                                    .kind = (uint16_t)kind,
                                    .size_bytes = (uint32_t)bytes};
}

/* A service's number for tasks is its index among the peers, as far as there are numbers. */
static void show_service(const struct registrar *registrar, const struct peer *service,
                         const struct peer *task)
{
    uint32_t number = (uint32_t)(service - registrar->peers) % REGISTER_NEIGHBOURS_MAX;
    const struct register_neighbour packet = {
        .header = header_of(REGISTER_NEIGHBOUR, sizeof(packet)), .number = number};
    send_packet(task, &packet, sizeof(packet), 1, &service->status_fd);
    task->attempt->limits->messages++;
}

static void say_gone(const struct registrar *registrar, const struct peer *service,
                     const struct peer *task)
{
    uint32_t number = (uint32_t)(service - registrar->peers) % REGISTER_NEIGHBOURS_MAX;
    const struct register_gone packet = {.header = header_of(REGISTER_GONE, sizeof(packet)),
                                         .number = number};
    send_packet(task, &packet, sizeof(packet), 0, NULL);
    task->attempt->limits->messages++;
}

static bool is_alive(const struct peer *peer)
{
    return peer->attempt && !peer->has_ended;
}

/* Calls `say` for every pair of a living service and a living task, one of which is `peer`. */
static void introduce(const struct registrar *registrar, const struct peer *peer,
                      void (*say)(const struct registrar *, const struct peer *service,
                                  const struct peer *task))
{
    for (unsigned i = 0; i < registrar->peer_count; i++) {
        const struct peer *other = &registrar->peers[i];
        if (other == peer || !is_alive(other) ||
            other->attempt->is_service == peer->attempt->is_service)
            continue;
        if (peer->attempt->is_service)
            say(registrar, peer, other);
        else
            say(registrar, other, peer);
    }
}

static void take_hello(struct registrar *registrar, struct peer *peer)
{
    struct register_hello hello = {0};
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&hello, sizeof(hello)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t count = recvmsg(peer->socket, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *rights = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    hello.mark[sizeof(hello.mark) - 1] = 0;
    if (!rights || hello.header.kind != REGISTER_HELLO ||
        getsockopt(peer->socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
        !(peer->attempt = find_attempt(registrar, hello.mark))) {
        close(peer->socket);
        peer->socket = -1;
        return;
    }
    memcpy(&peer->status_fd, CMSG_DATA(rights), sizeof(int));
    fcntl(peer->status_fd, F_ADD_SEALS,
          F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    peer->status = mmap(NULL, sizeof(*peer->status), PROT_READ, MAP_SHARED, peer->status_fd, 0);
    if (peer->status == MAP_FAILED)
        fail("status page");
    peer->pid = credentials.pid;
    peer->pidfd = (int)syscall(SYS_pidfd_open, credentials.pid, 0);
    peer->slot = peer->attempt->slot_count++ % PAGE_PROCESSES_MAX;
    peer->attempt->limits->slot_count = peer->attempt->slot_count;
    const struct register_welcome packet = {.header = header_of(REGISTER_WELCOME, sizeof(packet)),
                                            .page_version = PAGE_VERSION,
                                            .slot = peer->slot};
    const int fds[] = {peer->attempt->limits_fd, peer->attempt->ledger_fd};
    send_packet(peer, &packet, sizeof(packet), 2, fds);
    introduce(registrar, peer, show_service);
}

static void accept_peer(struct registrar *registrar)
{
    int fd = accept4(registrar->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (registrar->peer_count == PEERS_MAX) {
        close(fd);
        return;
    }
    registrar->peers[registrar->peer_count++] =
        (struct peer){.socket = fd, .pidfd = -1, .status_fd = -1};
}

static void end_peer(struct registrar *registrar, struct peer *peer)
{
    peer->has_ended = true;
    if (peer->attempt->is_service)
        introduce(registrar, peer, say_gone);
    close(peer->pidfd);
    close(peer->socket);
    peer->pidfd = peer->socket = -1;
}

/* ---- commands ---- */

/* Shows the requests, and the advice that the program has followed. due_ns is the earliest
 * deadline. */
static void show_channel(const struct status_page *status)
{
    uint64_t open = 0, due_ns = 0;
    for (int i = 0; i < PAGE_REQUESTS_MAX; i++) {
        uint64_t due = status->due_ns[i];
        open += due != 0;
        if (due != 0 && (due_ns == 0 || due < due_ns))
            due_ns = due;
    }
    printf(" open_requests=%llu due_ns=%llu requests_done=%llu requests_late=%llu "
           "reports_requests=%u advice_used=%llu batch_used=%llu",
           (unsigned long long)open, (unsigned long long)due_ns,
           (unsigned long long)status->requests_done, (unsigned long long)status->requests_late,
           status->reports_requests, (unsigned long long)status->advice_used,
           (unsigned long long)status->batch_used);
}

static void show(const struct registrar *registrar)
{
    static const char *const names[] = {
#define COUNTER(name, what) #name,
#include "abi/counters.def"
#undef COUNTER
    };
    for (unsigned i = 0; i < registrar->peer_count; i++) {
        const struct peer *peer = &registrar->peers[i];
        if (!peer->attempt)
            continue;
        uint64_t busy = 0, outstanding_ns = 0;
        for (int slot = 0; slot < PAGE_STREAMS_MAX; slot++) {
            uint64_t completed = peer->status->completed[slot];
            uint64_t started = peer->status->started[slot];
            busy += started != completed;
            outstanding_ns += started - completed;
        }
        uint64_t bursts[2] = {0};
        for (int k = 0; k < 2 * PAGE_BURST_KINDS; k++)
            bursts[k / PAGE_BURST_KINDS] +=
                peer->status->bursts[k / PAGE_BURST_KINDS][k % PAGE_BURST_KINDS].count;
        printf("process mark=%s pid=%d ended=%d state=%u busy_streams=%llu outstanding_ns=%llu "
               "shut=%u burst=%d bursts_alone=%llu bursts_beside=%llu",
               peer->attempt->mark, peer->pid, peer->has_ended, peer->status->state,
               (unsigned long long)busy, (unsigned long long)outstanding_ns, peer->status->shut[0],
               peer->status->burst_begin_ns != 0, (unsigned long long)bursts[0],
               (unsigned long long)bursts[1]);
        show_channel(peer->status);
        for (int j = 0; j < STATUS_COUNTER_COUNT; j++)
            printf(" %s=%llu", names[j], (unsigned long long)peer->status->counters[j]);
        printf("\n");
    }
    printf("end\n");
    fflush(stdout);
}

static bool set_option(struct registrar *registrar, const char *name, const char *value)
{
    for (int i = 0; i < OPTIONS; i++) {
        if (strcmp(name, option_names[i]) != 0)
            continue;
        registrar->options[i] = strtoull(value, NULL, 10);
        if ((i == LEASE || i == HOLD) && registrar->options[i])
            registrar->options[i] += boot_ms();
        return true;
    }
    return false;
}

static void obey(struct registrar *registrar)
{
    char line[128], *value;
    if (!fgets(line, sizeof(line), stdin)) {
        registrar->is_deaf = true;
        return;
    }
    line[strcspn(line, "\n")] = 0;
    if ((value = strchr(line, ' '))) {
        *value++ = 0;
        if (set_option(registrar, line, value)) {
            for (int i = 0; i < ATTEMPTS_MAX && registrar->attempts[i].limits; i++)
                apply(registrar, &registrar->attempts[i]);
            return;
        }
    } else if (strcmp(line, "show") == 0) {
        show(registrar);
        return;
    } else if (strcmp(line, "quit") == 0) {
        registrar->is_ending = true;
        return;
    }
    fprintf(stderr, "registrar: what is \"%s\"?\n", line);
}

/* ---- the loop ---- */

static void open_socket(struct registrar *registrar, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    sigset_t set;
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    unlink(path);
    registrar->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (registrar->listener < 0 ||
        bind(registrar->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(registrar->listener, PEERS_MAX) != 0)
        fail(path);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    registrar->signals = signalfd(-1, &set, SFD_CLOEXEC);
}

static void turn(struct registrar *registrar)
{
    static struct pollfd polls[3 + PEERS_MAX];
    unsigned count = registrar->peer_count;
    polls[0] = (struct pollfd){.fd = registrar->listener, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = registrar->signals, .events = POLLIN};
    polls[2] = (struct pollfd){.fd = registrar->is_deaf ? -1 : 0, .events = POLLIN};
    for (unsigned i = 0; i < count; i++) {
        const struct peer *peer = &registrar->peers[i];
        polls[3 + i] =
            (struct pollfd){.fd = peer->attempt ? peer->pidfd : peer->socket, .events = POLLIN};
    }
    if (poll(polls, 3 + count, -1) < 0)
        return;
    for (unsigned i = 0; i < count; i++) {
        struct peer *peer = &registrar->peers[i];
        if (!polls[3 + i].revents)
            continue;
        if (peer->attempt)
            end_peer(registrar, peer);
        else
            take_hello(registrar, peer);
    }
    if (polls[0].revents)
        accept_peer(registrar);
    if (polls[1].revents)
        registrar->is_ending = true;
    if (polls[2].revents)
        obey(registrar);
}

int main(int argc, char **argv)
{
    static struct registrar registrar;
    const char *path = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--socket") == 0)
            path = argv[i + 1];
        else if (strncmp(argv[i], "--", 2) != 0 ||
                 !set_option(&registrar, argv[i] + 2, argv[i + 1]))
            argc = 0;
    }
    if (!path || argc % 2 == 0) {
        fprintf(stderr, "usage: registrar --socket PATH [--window-us N] [--gate-us N] "
                        "[--linger-us N] [--rate-permille N] [--share-percent N] "
                        "[--quota-bytes N] [--lease-ms N] [--fence-ms N] [--gate-place 0|1] "
                        "[--target-us N] [--batch N] [--checkpoint N]\n");
        return 2;
    }
    setvbuf(stdin, NULL, _IONBF, 0);
    open_socket(&registrar, path);
    printf("ready\n");
    fflush(stdout);
    while (!registrar.is_ending)
        turn(&registrar);
    show(&registrar);
    unlink(path);
    return 0;
}
