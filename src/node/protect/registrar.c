#include "node/protect/registrar.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "node/supervisor/process.h"
#include "node/protect/registrar_internal.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static const char *const refusal_names[] = {[REGISTER_STRANGER] = "stranger",
                                            [REGISTER_FULL] = "full",
                                            [REGISTER_UNKNOWN_VERSION] = "version",
                                            [REGISTER_BROKEN] = "broken"};

static void on_hold_over(evutil_socket_t fd, short what, void *arg);

int registrar_new(struct error *e, const struct registrar_options *options, struct registrar **ret)
{
    struct registrar *r = calloc(1, sizeof *r);
    char *directory = strdup(options->directory);
    if (r)
        r->hold_over = evtimer_new(options->base, on_hold_over, r);
    if (!r || !r->hold_over || !directory) {
        if (r && r->hold_over)
            event_free(r->hold_over);
        free(r);
        free(directory);
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    r->options = *options;
    r->options.directory = r->directory = directory;
    list_init(&r->sessions);
    list_init(&r->leavings);
    *ret = r;
    return 0;
}

void registrar_leave(struct registrar *r)
{
    if (r)
        r->is_leaving = true;
}

void registrar_free(struct registrar *r)
{
    if (!r)
        return;
    leavings_free(r);
    event_free(r->hold_over);
    free(r->directory);
    free(r);
}

/* ---- packets ---- */

/* A received packet, zero-padded. Descriptors that did not come are -1. */
struct packet {
    union {
        struct register_header header;
        struct register_hello hello;
        char bytes[REGISTER_PACKET_MAX];
    };
    ssize_t length;
    size_t fd_count;
    int fds[REGISTER_FILES_MAX];
};
_Static_assert(REGISTER_FILES_MAX >= REGISTER_FDS_MAX, "room for the descriptors of any packet");

static void close_packet(struct packet *packet)
{
    for (size_t i = 0; i < packet->fd_count; i++) {
        if (packet->fds[i] >= 0)
            close(packet->fds[i]);
        packet->fds[i] = -1;
    }
}

static void take_descriptors(struct msghdr *message, struct packet *packet)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = c->cmsg_len - CMSG_LEN(0);
        for (size_t i = 0; i < bytes / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (packet->fd_count < REGISTER_FILES_MAX)
                packet->fds[packet->fd_count++] = fd;
            else
                close(fd);
        }
    }
}

/* Receives a packet. Returns false if none has come yet; a length ≤ 0 means that the peer
 * closed. */
static bool receive(int fd, struct packet *ret)
{
    union {
        char bytes[CMSG_SPACE(REGISTER_FILES_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(ret, 0, sizeof *ret);
    for (int i = 0; i < REGISTER_FILES_MAX; i++)
        ret->fds[i] = -1;
    struct iovec part = {ret->bytes, sizeof ret->bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ret->length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (ret->length < 0)
        return errno != EAGAIN && errno != EINTR;
    take_descriptors(&message, ret);
    return true;
}

struct register_header register_header_of(enum register_kind kind, size_t bytes)
{
    return (struct register_header){.magic = REGISTER_MAGIC,
                                    .version = REGISTER_VERSION,
                                    .kind = (uint16_t)kind,
                                    .size_bytes = (uint32_t)bytes};
}

static bool send_packet(int fd, const void *packet, size_t bytes, size_t count, const int *fds)
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
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

bool member_send(struct member *m, const void *packet, size_t bytes, int fd)
{
    return send_packet(m->fd, packet, bytes, fd >= 0, &fd);
}

/* ---- members ---- */

static void close_socket(struct member *m)
{
    if (m->readable)
        event_free(m->readable);
    if (m->writable)
        event_free(m->writable);
    m->readable = m->writable = NULL;
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

static bool is_kind(const struct packet *packet, enum register_kind kind)
{
    const struct register_header *header = &packet->header;
    return packet->length >= (ssize_t)sizeof *header && header->magic == REGISTER_MAGIC &&
           header->kind == kind;
}

/* Handles packets after the hello. Only REGISTER_FILES is known; packets of newer shims are
 * ignored. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct member *m = arg;
    struct packet packet;
    if (!receive(fd, &packet))
        return;
    if (is_kind(&packet, REGISTER_FILES)) {
        member_take_files(m, packet.fds, packet.fd_count);
        return;
    }
    close_packet(&packet);
    if (packet.length > 0)
        return;
    close_socket(m); /* the pidfd tells whether the process lives */
    m->left_ms = clock_boot_ms();
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    neighbours_tell(arg);
}

void member_await_room(struct member *m)
{
    if (!m->writable)
        m->writable =
            event_new(m->session->registrar->options.base, m->fd, EV_WRITE, on_writable, m);
    if (m->writable)
        event_add(m->writable, NULL);
}

static bool open_socket(struct member *m, int fd)
{
    close_socket(m);
    m->readable =
        event_new(m->session->registrar->options.base, fd, EV_READ | EV_PERSIST, on_readable, m);
    if (!m->readable || event_add(m->readable, NULL) < 0) {
        if (m->readable)
            event_free(m->readable);
        m->readable = NULL;
        return false;
    }
    m->fd = fd;
    return true;
}

static bool welcome(struct member *m)
{
    const struct register_welcome packet = {.header =
                                                register_header_of(REGISTER_WELCOME, sizeof packet),
                                            .page_version = PAGE_VERSION,
                                            .slot = m->slot};
    const int fds[] = {m->session->limits.fd, m->session->ledger.fd};
    return send_packet(m->fd, &packet, sizeof packet, 2, fds);
}

/* ---- hello ---- */

/* Identifies the peer. Returns false for a process that has ended, or without pid in this
 * namespace. */
static bool identify(int fd, pid_t *ret_pid, int *ret_pid_fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    int pid_fd = -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0)
        return false;
    size = sizeof pid_fd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pid_fd, &size) < 0)
        pid_fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    if (pid_fd < 0)
        return false;
    (void)fcntl(pid_fd, F_SETFD, FD_CLOEXEC);
    *ret_pid = peer.pid;
    *ret_pid_fd = pid_fd;
    return true;
}

static struct member *find_member(const struct session *s, pid_t pid)
{
    list_for_each (it, &s->members) {
        struct member *m = list_entry(it, struct member, link);
        if (m->pid == pid)
            return m;
    }
    return NULL;
}

/* Takes the ledger from the first process of an attempt of an earlier agent whose supervisor did
 * not answer. */
static void take_ledger(struct session *s, struct packet *packet)
{
    struct ledger_mapping ledger;
    if (s->member_count > 0 || s->draining_count > 0 || packet->fds[1] < 0 ||
        pages_take_ledger(packet->fds[1], &ledger) < 0)
        return;
    packet->fds[1] = -1;
    ledger_done(&s->ledger);
    s->ledger = ledger;
}

/* Readmits a process of an earlier agent, with the same ledger and slot. */
static int rejoin(struct session *s, struct packet *packet, pid_t pid, int pid_fd,
                  struct member **ret)
{
    struct stat st;
    struct member *m = find_member(s, pid);
    bool same = packet->fds[1] >= 0 && fstat(packet->fds[1], &st) == 0 &&
                packet->hello.slot < PAGE_PROCESSES_MAX;
    if (same && st.st_ino != s->ledger.inode) {
        take_ledger(s, packet);
        same = st.st_ino == s->ledger.inode;
    }
    if (!same || (m && m->slot != packet->hello.slot)) {
        close(pid_fd);
        return REGISTER_BROKEN;
    }
    if (m)
        close(pid_fd);
    else
        m = member_new(s, pid, pid_fd, (int)packet->hello.slot);
    if (!m)
        return REGISTER_FULL;
    for (int i = 0; i < REGISTER_NEIGHBOURS_MAX; i++)
        m->shown[i] = SHOWN_UNKNOWN;
    *ret = m;
    return 0;
}

/* Admits a process. A second first hello of a known process means that it has exec'ed another
 * program. */
static int enrol(struct session *s, struct packet *packet, pid_t pid, int pid_fd,
                 struct member **ret)
{
    if (packet->hello.again)
        return rejoin(s, packet, pid, pid_fd, ret);
    struct member *before = find_member(s, pid);
    if (before)
        member_end(before);
    if (s->rests) {
        close(pid_fd);
        return REGISTER_FULL; /* its devices may be used by others now */
    }
    *ret = member_new(s, pid, pid_fd, -1);
    if (*ret)
        (*ret)->came_ms = clock_boot_ms();
    return *ret ? 0 : REGISTER_FULL;
}

/* Keeps a member whose process lost patience before its welcome: the process lives, holds memory,
 * and will register again. */
static void await_again(struct member *m, bool seen_before)
{
    close_socket(m);
    if (!seen_before)
        status_done(&m->status); /* as for a member that a new agent knows from the ledger */
}

/* Returns 0, or the reason for a refusal. Descriptors that the member keeps are removed from the
 * packet. */
static int admit(struct applicant *a, struct packet *packet)
{
    struct session *s = a->session;
    pid_t pid;
    int pid_fd;
    if (!is_kind(packet, REGISTER_HELLO))
        return REGISTER_BROKEN;
    if (packet->header.version != REGISTER_VERSION || packet->hello.page_version != PAGE_VERSION)
        return REGISTER_UNKNOWN_VERSION;
    if (!identify(a->fd, &pid, &pid_fd))
        return REGISTER_STRANGER;
    if (!s->belongs(s->arg, pid)) {
        close(pid_fd);
        return REGISTER_STRANGER;
    }
    struct status_mapping status;
    if (packet->fds[0] < 0 || pages_take_status(packet->fds[0], &status) < 0) {
        close(pid_fd);
        return REGISTER_BROKEN;
    }
    packet->fds[0] = -1;
    struct member *m = NULL;
    int refusal = enrol(s, packet, pid, pid_fd, &m);
    if (refusal) {
        status_done(&status);
        return refusal;
    }
    bool seen_before = m->status.fd >= 0;
    if (seen_before) /* neighbours have this mapping of the same page */
        status_done(&status);
    else
        m->status = status;
    if (open_socket(m, a->fd))
        a->fd = -1;
    if (m->fd < 0 || !welcome(m)) {
        if (packet->hello.again)
            await_again(m, seen_before);
        else
            member_end(m);
        return REGISTER_FULL;
    }
    if (!seen_before)
        neighbours_show(m);
    neighbours_tell(m);
    return 0;
}

static void applicant_free(struct applicant *a)
{
    struct session *s = a->session;
    event_free(a->readable);
    if (a->fd >= 0)
        close(a->fd);
    list_remove(&a->link);
    if (s->applicant_count-- == APPLICANTS_MAX)
        event_add(s->listening, NULL);
    free(a);
}

/* ---- holding ---- */

static bool is_held(const struct session *s)
{
    const struct registrar *r = s->registrar;
    for (size_t i = 0; i < r->hold_count; i++)
        if (r->holds[i].until_ms > clock_boot_ms() && s->terms->device_count > 0 &&
            str_equal(r->holds[i].uuid, s->terms->devices[0]))
            return true;
    return false;
}

void registrar_hold(struct registrar *r, const char *uuid)
{
    const struct timeval most = {.tv_sec = HOLD_MS / 1000, .tv_usec = HOLD_MS % 1000 * 1000};
    size_t i = 0;
    while (i < r->hold_count && !str_equal(r->holds[i].uuid, uuid))
        i++;
    if (i == NODE_DEVICES_MAX)
        return;
    if (i == r->hold_count)
        str_copy(r->holds[r->hold_count++].uuid, DEVICE_UUID_MAX, uuid);
    r->holds[i].until_ms = clock_boot_ms() + HOLD_MS;
    event_add(r->hold_over, &most);
}

static void wake_held(struct registrar *r)
{
    const struct timeval patience = {.tv_sec = HELLO_MS / 1000};
    list_for_each (it, &r->sessions) {
        struct session *s = list_entry(it, struct session, link);
        if (is_held(s))
            continue;
        list_for_each (at, &s->applicants) {
            struct applicant *a = list_entry(at, struct applicant, link);
            if (a->is_held)
                event_add(a->readable, &patience);
            a->is_held = false;
        }
    }
}

void registrar_go_on(struct registrar *r, const char *uuid)
{
    for (size_t i = 0; i < r->hold_count; i++)
        if (str_equal(r->holds[i].uuid, uuid))
            r->holds[i].until_ms = 0;
    wake_held(r);
}

/* Ends holds that registrar_go_on() did not end. */
static void on_hold_over(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct registrar *r = arg;
    for (size_t i = 0; i < r->hold_count; i++)
        r->holds[i].until_ms = 0;
    wake_held(r);
}

static void on_hello(evutil_socket_t fd, short what, void *arg)
{
    struct applicant *a = arg;
    struct packet packet;
    if (what & EV_TIMEOUT) {
        applicant_free(a);
        return;
    }
    if (is_held(a->session)) {
        a->is_held = true;
        event_del(a->readable);
        return;
    }
    if (!receive(fd, &packet))
        return;
    int refusal = packet.length > 0 ? admit(a, &packet) : 0;
    close_packet(&packet);
    if (refusal) {
        const struct register_refused refused = {
            .header = register_header_of(REGISTER_REFUSED, sizeof refused),
            .reason = (uint32_t)refusal};
        if (a->fd >= 0)
            (void)send_packet(a->fd, &refused, sizeof refused, 0, NULL);
        log_write(a->session->registrar->options.log, LOG_WARN, "process registration refused",
                  "attempt=%s reason=%s", a->session->name, refusal_names[refusal]);
    }
    applicant_free(a);
}

/* ---- the socket ---- */

static void take_applicant(struct session *s, int fd)
{
    const struct timeval patience = {.tv_sec = HELLO_MS / 1000};
    struct applicant *a = s->applicant_count < APPLICANTS_MAX ? calloc(1, sizeof *a) : NULL;
    if (a) {
        *a = (struct applicant){.session = s, .fd = fd};
        a->readable = event_new(s->registrar->options.base, fd, EV_READ | EV_PERSIST, on_hello, a);
    }
    if (!a || !a->readable || event_add(a->readable, &patience) < 0) {
        if (a && a->readable)
            event_free(a->readable);
        free(a);
        close(fd);
        return;
    }
    list_append(&s->applicants, &a->link);
    s->applicant_count++;
}

/* Accepts connections. A connection that cannot be accepted now would wake the loop again at
 * once. */
static void on_connection(evutil_socket_t listen_fd, short what, void *arg)
{
    const struct timeval again = {.tv_usec = ACCEPT_AGAIN_MS * 1000};
    (void)what;
    struct session *s = arg;
    for (int i = 0; i < ACCEPTED_AT_ONCE && s->applicant_count < APPLICANTS_MAX; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_applicant(s, fd);
            continue;
        }
        if (errno != EAGAIN) {
            event_del(s->listening);
            event_add(s->listen_again, &again);
        }
        return;
    }
    if (s->applicant_count == APPLICANTS_MAX)
        event_del(s->listening);
}

static void on_listen_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct session *s = arg;
    if (s->applicant_count < APPLICANTS_MAX)
        event_add(s->listening, NULL);
}

bool registrar_socket_path(const char *directory, const char *name, char *path, size_t size)
{
    size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path;
    int length = snprintf(path, size, "%s/%s", directory, name);
    return length > 0 && (size_t)length < size && (size_t)length < most;
}

/* Binds through the directory's descriptor; the full path was checked when the attempt was made. */
static int bind_socket(int fd, int directory_fd, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
                          directory_fd, name);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return -1;
    unlinkat(directory_fd, name, 0);
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

int registrar_listen(struct error *e, struct session *s, uid_t uid)
{
    const struct registrar_options *options = &s->registrar->options;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    s->listen_fd = fd;
    if (fd < 0 || bind_socket(fd, options->directory_fd, s->name) < 0 ||
        fchmodat(options->directory_fd, s->name, 0600, 0) < 0 ||
        (uid != geteuid() &&
         fchownat(options->directory_fd, s->name, uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0) ||
        listen(fd, BACKLOG) < 0)
        return error_set_errno(e, ERR_IO, errno, "its processes cannot register at %s/%s",
                               options->directory, s->name);
    s->listening = event_new(options->base, fd, EV_READ | EV_PERSIST, on_connection, s);
    s->listen_again = evtimer_new(options->base, on_listen_again, s);
    if (!s->listening || !s->listen_again || event_add(s->listening, NULL) < 0)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    return 0;
}

void registrar_unlisten(struct session *s)
{
    list_for_each_safe (it, &s->applicants)
        applicant_free(list_entry(it, struct applicant, link));
    if (s->listening)
        event_free(s->listening);
    if (s->listen_again)
        event_free(s->listen_again);
    s->listening = s->listen_again = NULL;
    if (s->listen_fd < 0)
        return;
    close(s->listen_fd);
    s->listen_fd = -1;
    if (!s->registrar->is_leaving)
        unlinkat(s->registrar->options.directory_fd, s->name, 0);
}
