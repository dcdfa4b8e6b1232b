/* Addresses and sockets of the load generator. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "load/load_internal.h"

int peer_open(const struct peer *peer)
{
    int family = peer->address.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(fd, (const struct sockaddr *)&peer->address, peer->length) == 0 ||
        errno == EINPROGRESS)
        return fd;
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

static int wait_connected(int fd, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int failure = 0;
    int ready;
    do
        ready = poll(&wait, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return ETIMEDOUT;
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &(socklen_t){sizeof failure});
    return failure;
}

/* Returns 0 or errno. */
static int try_peer(const struct peer *peer, int timeout_ms, int *ret_fd)
{
    int fd = peer_open(peer);
    if (fd < 0)
        return errno;
    int failure = wait_connected(fd, timeout_ms);
    if (failure == 0)
        *ret_fd = fd;
    else
        close(fd);
    return failure;
}

static int refuse(struct error *e, int failure, const struct request_target *t)
{
    enum error_code code = failure == EACCES || failure == EPERM ? ERR_DENIED : ERR_UNAVAILABLE;
    if (t->is_unix)
        return error_set_errno(e, code, failure, "cannot connect to %s", t->socket);
    return error_set_errno(e, code, failure, "cannot connect to %s port %s", t->address.host,
                           t->address.port);
}

static int connect_unix(struct error *e, const struct request_target *t, int timeout_ms,
                        struct peer *ret_peer, int *ret_fd)
{
    struct peer peer = {.length = sizeof(struct sockaddr_un)};
    struct sockaddr_un *un = (struct sockaddr_un *)&peer.address;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, t->socket, sizeof un->sun_path);
    int failure = try_peer(&peer, timeout_ms, ret_fd);
    if (failure != 0)
        return refuse(e, failure, t);
    *ret_peer = peer;
    return 0;
}

int peer_connect(struct error *e, const struct request_target *target, int timeout_ms,
                 struct peer *ret_peer, int *ret_fd)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
    if (target->is_unix)
        return connect_unix(e, target, timeout_ms, ret_peer, ret_fd);
    int r = getaddrinfo(target->address.host, target->address.port, &hints, &list);
    if (r != 0)
        return error_set(e, ERR_UNAVAILABLE, "cannot find the host %s: %s", target->address.host,
                         gai_strerror(r));
    int failure = ENOENT;
    for (const struct addrinfo *at = list; at && failure != 0; at = at->ai_next) {
        struct peer peer = {.length = at->ai_addrlen};
        memcpy(&peer.address, at->ai_addr, at->ai_addrlen);
        failure = try_peer(&peer, timeout_ms, ret_fd);
        if (failure == 0)
            *ret_peer = peer;
    }
    freeaddrinfo(list);
    return failure == 0 ? 0 : refuse(e, failure, target);
}
