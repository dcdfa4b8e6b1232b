#include "node/protect/registrar_fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

/* ---- the agent's side ---- */

static void on_death(void *arg)
{
    ((struct fixture *)arg)->deaths++;
}

static bool belongs(void *arg, pid_t pid)
{
    return pid != ((struct fixture *)arg)->stranger;
}

void open_registrar(struct fixture *f)
{
    const struct registrar_options options = {.base = f->base,
                                              .directory = f->directory,
                                              .directory_fd = f->directory_fd,
                                              .window_us = WINDOW_US,
                                              .gate_us_max = 20000,
                                              .on_death = on_death,
                                              .arg = f};
    assert_int_equal(registrar_new(NULL, &options, &f->registrar), 0);
}

int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    str_copy(f->directory, sizeof f->directory, "/tmp/gpumux-reg-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    f->directory_fd = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->base = event_base_new();
    assert_non_null(f->base);
    f->stranger = -1;
    open_registrar(f);
    *state = f;
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;
    registrar_free(f->registrar);
    event_base_free(f->base);
    close(f->directory_fd);
    rmdir(f->directory);
    free(f);
    return 0;
}

struct terms terms_of(enum workload_kind kind, uint64_t quota_bytes)
{
    struct terms terms = {.kind = kind,
                          .device_count = 1,
                          .devices = {UUID},
                          .quota_bytes = quota_bytes,
                          .share_max_percent = 100,
                          .is_protected = true};
    return terms;
}

struct session *make_session(struct fixture *f, const char *name, const struct terms *terms,
                             int ledger_fd)
{
    const struct session_options options = {.name = name,
                                            .uid = geteuid(),
                                            .terms = terms,
                                            .ledger_fd = ledger_fd,
                                            .belongs = belongs,
                                            .arg = f};
    struct session *w;
    assert_int_equal(session_new(NULL, f->registrar, &options, &w), 0);
    return w;
}

void turn(struct fixture *f)
{
    event_base_loop(f->base, EVLOOP_NONBLOCK);
}

/* ---- the process's side ---- */

int connect_to(const struct fixture *f, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", f->directory, name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

struct register_hello hello_of(bool again, uint32_t slot)
{
    return (struct register_hello){.header = {.magic = REGISTER_MAGIC,
                                              .version = REGISTER_VERSION,
                                              .kind = REGISTER_HELLO,
                                              .size_bytes = sizeof(struct register_hello)},
                                   .page_version = PAGE_VERSION,
                                   .again = again,
                                   .slot = slot};
}

void send_with(int fd, const void *packet, size_t bytes, size_t count, const int *fds)
{
    union {
        char bytes[CMSG_SPACE(REGISTER_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)packet, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &message, MSG_NOSIGNAL), bytes);
}

bool receive(struct fixture *f, int fd, union packet *ret, int fds[2])
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {ret, sizeof *ret};
    int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
    fds[0] = fds[1] = -1;
    for (;;) {
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        turn(f);
        ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n == 0)
            return false;
        if (n > 0) {
            struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
            if (rights)
                memcpy(fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
            return true;
        }
        assert_int_equal(errno, EAGAIN);
        assert_true(clock_boot_ms() < until_ms);
    }
}

void make_status(struct client *c)
{
    c->status_fd = memfd_create("gpumux-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(c->status_fd, sizeof *c->status), 0);
    c->status = mmap(NULL, sizeof *c->status, PROT_READ | PROT_WRITE, MAP_SHARED, c->status_fd, 0);
    assert_ptr_not_equal(c->status, MAP_FAILED);
    c->status->header = (struct page_header){.magic = PAGE_STATUS,
                                             .version = PAGE_VERSION,
                                             .size_bytes = sizeof *c->status,
                                             .features = STATUS_HAS_MARKS};
}

void map_welcome(struct client *c, uint32_t slot, const int fds[2])
{
    c->slot = slot;
    c->status->slot = slot;
    c->limits_fd = fds[0];
    c->ledger_fd = fds[1];
    c->limits = mmap(NULL, sizeof *c->limits, PROT_READ, MAP_SHARED, fds[0], 0);
    c->ledger = mmap(NULL, sizeof *c->ledger, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    assert_ptr_not_equal(c->limits, MAP_FAILED);
    assert_ptr_not_equal(c->ledger, MAP_FAILED);
}

void join(struct fixture *f, const char *name, struct client *c)
{
    union packet packet;
    int fds[2];
    const struct register_hello hello = hello_of(false, 0);
    *c = (struct client){0};
    make_status(c);
    c->fd = connect_to(f, name);
    send_with(c->fd, &hello, sizeof hello, 1, &c->status_fd);
    assert_true(receive(f, c->fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_WELCOME);
    map_welcome(c, packet.welcome.slot, fds);
}

void leave(struct client *c)
{
    munmap((void *)(uintptr_t)c->limits, sizeof *c->limits);
    munmap(c->ledger, sizeof *c->ledger);
    munmap(c->status, sizeof *c->status);
    close(c->limits_fd);
    close(c->ledger_fd);
    close(c->status_fd);
    close(c->fd);
}

pid_t start_holder(struct fixture *f, const char *name, uint64_t bytes, struct client *view)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *view = (struct client){0};
    make_status(view);
    pid_t pid = fork();
    if (pid == 0) {
        /* This process connects and the other sends: the kernel reports the process that
         * connected. */
        int fd = connect_to(f, name);
        send_with(pair[1], "x", 1, 1, &fd);
        for (;;)
            pause();
    }
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    assert_int_equal(recvmsg(pair[0], &message, MSG_CMSG_CLOEXEC), 1);
    memcpy(&view->fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof view->fd);
    close(pair[0]);
    close(pair[1]);
    const struct register_hello hello = hello_of(false, 0);
    union packet packet;
    int fds[2];
    send_with(view->fd, &hello, sizeof hello, 1, &view->status_fd);
    assert_true(receive(f, view->fd, &packet, fds));
    assert_int_equal(packet.header.kind, REGISTER_WELCOME);
    map_welcome(view, packet.welcome.slot, fds);
    view->ledger->held_bytes[0][view->slot] = bytes;
    return pid;
}

void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}
