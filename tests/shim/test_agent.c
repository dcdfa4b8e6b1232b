#include "tests/shim/test_agent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

void init_program(struct program *program, const char *path, const char *argument, const char *shim)
{
    *program = (struct program){.path = path, .argument = argument};
    preload_shim(shim, program->preload);
}

void *make_page(const char *name, uint32_t magic, size_t bytes, size_t file_bytes, int *ret_fd)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)file_bytes), 0);
    void *page = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    struct page_header *header = page;
    header->magic = magic;
    header->version = PAGE_VERSION;
    header->size_bytes = (uint32_t)bytes;
    *ret_fd = fd;
    return page;
}

void start_agent(struct agent *agent, struct driver_api *api)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *agent = (struct agent){.dir = "/tmp/gpumux-agent-XXXXXX"};
    assert_non_null(mkdtemp(agent->dir));
    snprintf(agent->path, sizeof(agent->path), "%s/register", agent->dir);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent->path);
    agent->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(agent->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(agent->listener, 16), 0);
    agent->limits = make_page("limits", PAGE_LIMITS, sizeof(struct limits_page),
                              sizeof(struct limits_page), &agent->limits_fd);
    agent->ledger = make_page("ledger", PAGE_LEDGER, sizeof(struct ledger_page),
                              sizeof(struct ledger_page), &agent->ledger_fd);
    agent->limits->header.features = LIMITS_HAS_QUOTA | LIMITS_HAS_OVERHEAD;
    agent->limits->kind = LIMITS_TASK;
    agent->limits->slot_count = 4;
    agent->limits->device_count = 2;
    CUuuid uuid;
    assert_int_equal(api->cuInit(0), 0);
    assert_int_equal(api->cuDeviceGetUuid_v2(&uuid, 0), 0);
    memcpy(agent->limits->devices[1].uuid, &uuid, sizeof(uuid));
    agent->limits->devices[1].quota_bytes = 64 * MIB + 2 * CONTEXT;
    agent->limits->devices[1].context_bytes = CONTEXT;
}

void stop_agent(struct agent *agent)
{
    munmap(agent->limits, sizeof(*agent->limits));
    munmap(agent->ledger, sizeof(*agent->ledger));
    close(agent->limits_fd);
    close(agent->ledger_fd);
    close(agent->listener);
    unlink(agent->path);
    rmdir(agent->dir);
}

void start_host(const struct agent *agent, const struct program *program, struct talker *ret_host)
{
    const char *const arguments[] = {program->path, program->argument, NULL};
    const char *const variables[] = {"LD_PRELOAD",
                                     program->preload,
                                     "GPUMUX_REGISTER",
                                     agent->path,
                                     "GPUMUX_MARK",
                                     "here/7.1",
                                     program->fault_at ? "GPUMUX_FAULT_AT" : NULL,
                                     program->fault_at,
                                     NULL};
    start_talker(ret_host, arguments, variables);
}

void end_host(const struct talker *host)
{
    int status = -1;
    tell(host, "end");
    fclose(host->to);
    assert_int_equal(waitpid(host->pid, &status, 0), host->pid);
    assert_int_equal(status, 0);
    fclose(host->from);
}

static void await(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
}

void accept_peer(const struct agent *agent, struct peer *ret_peer)
{
    struct peer peer = {.ledger_fd = -1};
    int fds[2] = {-1, -1};
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    char control[CMSG_SPACE(sizeof(fds))] = {0};
    struct iovec part = {&peer.hello, sizeof(peer.hello)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    await(agent->listener);
    peer.socket = accept4(agent->listener, NULL, NULL, SOCK_CLOEXEC);
    await(peer.socket);
    assert_int_equal(recvmsg(peer.socket, &message, MSG_CMSG_CLOEXEC), sizeof(peer.hello));
    assert_non_null(CMSG_FIRSTHDR(&message));
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)),
           CMSG_FIRSTHDR(&message)->cmsg_len - CMSG_LEN(0));
    peer.status_fd = fds[0];
    peer.ledger_fd = fds[1];
    assert_int_equal(getsockopt(peer.socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size), 0);
    peer.pid = credentials.pid;
    /* The page of a process that registers again is sealed already. */
    assert_int_equal(fcntl(peer.status_fd, F_ADD_SEALS, SEALS), peer.hello.again ? -1 : 0);
    assert_int_equal(fcntl(peer.status_fd, F_GET_SEALS), SEALS);
    peer.status = mmap(NULL, sizeof(*peer.status), PROT_READ, MAP_SHARED, peer.status_fd, 0);
    assert_ptr_not_equal(peer.status, MAP_FAILED);
    *ret_peer = peer;
}

bool try_to_send(const struct peer *peer, const void *packet, size_t bytes, int fd_count,
                 const int *fds)
{
    char control[CMSG_SPACE(2 * sizeof(int))] = {0};
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
    return sendmsg(peer->socket, &message, MSG_NOSIGNAL) == (ssize_t)bytes;
}

void send_packet(const struct peer *peer, const void *packet, size_t bytes, int fd_count,
                 const int *fds)
{
    assert_true(try_to_send(peer, packet, bytes, fd_count, fds));
}

struct register_header header_of(int kind, size_t bytes)
{
    return (struct register_header){.magic = REGISTER_MAGIC,
                                    .version = REGISTER_VERSION,
                                    .kind = (uint16_t)kind,
                                    .size_bytes = (uint32_t)bytes};
}

void welcome(const struct agent *agent, const struct peer *peer, uint32_t slot)
{
    const struct register_welcome packet = {.header = header_of(REGISTER_WELCOME, sizeof(packet)),
                                            .page_version = PAGE_VERSION,
                                            .slot = slot};
    const int fds[] = {agent->limits_fd, agent->ledger_fd};
    send_packet(peer, &packet, sizeof(packet), 2, fds);
}

void leave(struct peer *peer)
{
    munmap((void *)(uintptr_t)peer->status, sizeof(*peer->status));
    close(peer->status_fd);
    if (peer->ledger_fd >= 0)
        close(peer->ledger_fd);
    if (peer->socket >= 0)
        close(peer->socket);
    peer->socket = -1;
}
