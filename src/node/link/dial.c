#include "node/link/dial.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "node/link/resolve.h"
#include "tls/context.h"
#include "tls/session.h"

struct dial {
    struct event_base *base;
    dial_made made;
    void *arg;
    struct sockaddr_un unix_address; /* used without a host */
    char *host, *port;
    struct tls_context *context;
    struct resolve *resolve; /* in progress */
    unsigned tried;          /* number of addresses tried */
};

static void fail(struct dial *d, const struct error *why)
{
    d->made(d->arg, NULL, why);
}

static void start_unix(struct dial *d)
{
    struct error e = {0};
    struct bufferevent *stream =
        bufferevent_socket_new(d->base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    if (!stream) {
        (void)error_set(&e, ERR_NO_MEMORY, "out of memory");
        fail(d, &e);
    } else if (bufferevent_socket_connect(stream, (struct sockaddr *)&d->unix_address,
                                          sizeof d->unix_address) < 0) {
        (void)error_set_errno(&e, ERR_UNAVAILABLE, errno, "cannot connect to %s",
                              d->unix_address.sun_path);
        bufferevent_free(stream);
        fail(d, &e);
    } else {
        d->made(d->arg, stream, NULL);
    }
}

/* Makes a socket that is connecting or connected. */
static int begin_connect(struct error *e, const struct dial *d, const struct addrinfo *to,
                         int *ret_fd)
{
    const int on = 1;
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (connect(fd, to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS)) {
        /* Messages are small and must not wait. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        *ret_fd = fd;
        return 0;
    }
    int failed = errno;
    if (fd >= 0)
        close(fd);
    return error_set_errno(e, ERR_UNAVAILABLE, failed, "cannot connect to %s:%s", d->host, d->port);
}

static void on_resolved(void *arg, int failed, struct addrinfo *addresses)
{
    struct dial *d = arg;
    struct error e = {0};
    struct bufferevent *stream = NULL;
    const struct addrinfo *to = addresses;
    unsigned count = 0;
    int fd = -1;
    d->resolve = NULL;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next)
        count++;
    if (failed || count == 0) {
        (void)error_set(&e, ERR_UNAVAILABLE, "cannot look up %s: %s", d->host,
                        failed ? gai_strerror(failed) : "it has no address");
    } else {
        for (unsigned i = d->tried++ % count; i > 0; i--)
            to = to->ai_next;
        if (begin_connect(&e, d, to, &fd) == 0)
            stream = tls_stream_connect(&e, d->context, d->base, fd, d->host);
    }
    if (addresses)
        freeaddrinfo(addresses);
    if (stream)
        d->made(d->arg, stream, NULL);
    else
        fail(d, &e);
}

/* Starts a connection; a numeric address needs no resolving. */
static void start_tls(struct dial *d)
{
    const struct addrinfo numeric = {.ai_family = AF_UNSPEC,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    struct error e = {0};
    if (getaddrinfo(d->host, d->port, &numeric, &addresses) == 0)
        on_resolved(d, 0, addresses);
    else if (resolve_start(&e, d->base, d->host, d->port, on_resolved, d, &d->resolve) < 0)
        fail(d, &e);
}

void dial_start(struct dial *d)
{
    dial_cancel(d);
    if (d->host)
        start_tls(d);
    else
        start_unix(d);
}

void dial_cancel(struct dial *d)
{
    resolve_cancel(d->resolve);
    d->resolve = NULL;
}

void dial_trust(struct dial *d, struct tls_context *context)
{
    tls_context_free(d->context);
    d->context = context;
}

static int dial_new(struct error *e, struct event_base *base, dial_made made, void *arg,
                    struct dial **ret)
{
    struct dial *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    *d = (struct dial){.base = base, .made = made, .arg = arg};
    *ret = d;
    return 0;
}

int dial_new_unix(struct error *e, struct event_base *base, const char *path, dial_made made,
                  void *arg, struct dial **ret)
{
    struct dial *d = NULL;
    int r = dial_new(e, base, made, arg, &d);
    if (r < 0)
        return r;
    d->unix_address.sun_family = AF_UNIX;
    if (!str_copy(d->unix_address.sun_path, sizeof d->unix_address.sun_path, path)) {
        dial_free(d);
        return error_set(e, ERR_INVALID, "the path of a socket has at most 107 bytes: %s", path);
    }
    *ret = d;
    return 0;
}

int dial_new_tls(struct error *e, struct event_base *base, const char *host, const char *port,
                 dial_made made, void *arg, struct dial **ret)
{
    struct dial *d = NULL;
    int r = dial_new(e, base, made, arg, &d);
    if (r < 0)
        return r;
    d->host = strdup(host);
    d->port = strdup(port);
    if (!d->host || !d->port) {
        dial_free(d);
        return error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    *ret = d;
    return 0;
}

void dial_free(struct dial *d)
{
    if (!d)
        return;
    dial_cancel(d);
    tls_context_free(d->context);
    free(d->host);
    free(d->port);
    free(d);
}
