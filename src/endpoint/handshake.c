/*
 * TCP: listening, and the stage before a connection over TLS. A handshake ends as a connection of
 * the API, as a stream for the receiver of nodes, or as a line in the log.
 */
#include <errno.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "endpoint/connection_internal.h"
#include "tls/session.h"

enum {
    PEER_TEXT_MAX = NI_MAXHOST + 8,
    LOG_EVERY_MS = 1000, /* period in which at most LOG_LINES_MAX refusals are logged */
    LOG_LINES_MAX = 10,
    KEEPALIVE_IDLE_S = 60, /* keepalive: detects a vanished client within two minutes */
    KEEPALIVE_EVERY_S = 15,
    KEEPALIVE_COUNT = 4,
};

struct handshake {
    struct list link;
    struct http_server *server;
    int fd;
    struct tls_session *tls;
    struct event *event;
    int64_t deadline_boot_ms;
    char peer[PEER_TEXT_MAX]; /* address and port, for the log */
};

/* Frees the handshake with everything that it still owns. */
static void handshake_free(struct handshake *h)
{
    list_remove(&h->link);
    h->server->handshake_count--;
    if (h->event)
        event_free(h->event);
    tls_session_free(h->tls);
    if (h->fd >= 0)
        close(h->fd);
    free(h);
}

static void refuse(struct handshake *h, const char *why)
{
    struct http_server *s = h->server;
    int64_t now = clock_boot_ms();
    s->counters.handshakes_failed++;
    if (now - s->refusals_since_boot_ms >= LOG_EVERY_MS) {
        s->refusals_since_boot_ms = now;
        s->refusals_logged = 0;
    }
    if (s->refusals_logged < LOG_LINES_MAX) {
        log_write(s->log, LOG_WARN, "connection refused", "peer=%s reason=\"%s\" unlogged=%llu",
                  h->peer, why, (unsigned long long)s->refusals_unlogged);
        s->refusals_logged++;
        s->refusals_unlogged = 0;
    } else {
        s->refusals_unlogged++;
    }
    handshake_free(h);
}

/* ---- after the handshake ---- */

static void become_node(struct handshake *h, const struct certificate_facts *facts)
{
    struct http_server *s = h->server;
    struct bufferevent *stream = tls_session_into_stream(h->tls, s->base, h->fd);
    h->tls = NULL;
    h->fd = -1;
    handshake_free(h);
    if (stream)
        s->on_node(s->context, stream, facts);
}

static void become_connection(struct handshake *h, const struct http_peer *peer)
{
    struct http_server *s = h->server;
    const char *why = server_refuses(s, peer);
    if (why) {
        char text[HTTP_REFUSAL_MAX];
        size_t sent, length = server_write_refusal(s, why, text, sizeof text);
        enum tls_want want;
        (void)tls_session_write(NULL, h->tls, text, length, &sent, &want);
        tls_session_shutdown(h->tls);
        handshake_free(h);
        return;
    }
    int fd = h->fd;
    struct tls_session *tls = h->tls;
    h->fd = -1;
    h->tls = NULL;
    handshake_free(h);
    if (connection_new(s, fd, tls, peer) < 0)
        log_write(s->log, LOG_ERROR, "connection dropped", "reason=memory");
}

static void finish(struct handshake *h)
{
    struct error e = {0};
    struct certificate_facts facts = {0};
    struct http_peer peer = {.kind = HTTP_PEER_STRANGER, .uid = (uid_t)-1, .gid = (gid_t)-1};
    int certified = tls_session_peer(&e, h->tls, &facts);
    bool is_node = certified == 0 && facts.role == CERTIFICATE_NODE;
    if (certified < 0 && certified != -ERR_NOT_FOUND) {
        refuse(h, e.text);
    } else if (tls_session_protocol(h->tls) == TLS_HTTP) {
        if (is_node) {
            peer.kind = HTTP_PEER_NODE;
            str_copy(peer.account, sizeof peer.account, facts.name);
        }
        become_connection(h, &peer);
    } else if (!is_node) {
        refuse(h, "speaks as a node, without a node's certificate");
    } else if (!h->server->on_node) {
        refuse(h, "nodes are not taken here");
    } else {
        become_node(h, &facts);
    }
}

/* ---- during the handshake ---- */

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct handshake *h = arg;
    struct error e = {0};
    enum tls_want want;
    if (tls_session_handshake(&e, h->tls, &want) < 0) {
        refuse(h, e.text);
        return;
    }
    if (want == TLS_DONE) {
        finish(h);
        return;
    }
    short awaited = want == TLS_WANT_READ ? EV_READ : EV_WRITE;
    if (event_assign(h->event, h->server->base, fd, awaited, on_ready, h) < 0 ||
        event_add(h->event, NULL) < 0)
        refuse(h, "out of memory");
}

void handshakes_end_overdue(struct http_server *s, int64_t now_boot_ms)
{
    list_for_each_safe (it, &s->handshakes) {
        struct handshake *h = list_entry(it, struct handshake, link);
        if (h->deadline_boot_ms <= now_boot_ms)
            refuse(h, "no handshake in time");
    }
}

void handshakes_end_all(struct http_server *s)
{
    while (!list_empty(&s->handshakes))
        handshake_free(list_entry(s->handshakes.next, struct handshake, link));
}

/* ---- before the handshake ---- */

static void set_options(int fd)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
}

static void on_accept(struct evconnlistener *accepts, int fd, struct sockaddr *address, int length,
                      void *arg)
{
    (void)accepts;
    struct http_server *s = ((struct listener *)arg)->server;
    struct handshake *h = s->handshake_count < HTTP_HANDSHAKES_MAX ? calloc(1, sizeof *h) : NULL;
    if (!h) {
        s->counters.connections_refused++;
        close(fd);
        return;
    }
    h->server = s;
    h->fd = fd;
    h->deadline_boot_ms = clock_boot_ms() + s->timeouts.handshake_ms;
    list_append(&s->handshakes, &h->link);
    s->handshake_count++;
    server_watch_time(s);
    char host[NI_MAXHOST] = "?", port[8] = "?";
    (void)getnameinfo(address, (socklen_t)length, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(h->peer, sizeof h->peer, "%s:%s", host, port);
    set_options(fd);
    struct error e = {0};
    h->event = event_new(s->base, fd, EV_READ, on_ready, h);
    if (!h->event || event_add(h->event, NULL) < 0)
        refuse(h, "out of memory");
    else if (tls_session_new(&e, s->tls, fd, NULL, &h->tls) < 0)
        refuse(h, e.text);
}

/* ---- listening ---- */

static int bind_tcp(struct error *e, const char *host, const char *port, int *ret_fd)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed)
        return error_set(e, ERR_INVALID, "cannot listen on %s:%s: %s", host, port,
                         gai_strerror(failed));
    const int yes = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                 bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    int saved = errno;
    freeaddrinfo(found);
    if (!bound) {
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, saved == EADDRINUSE ? ERR_BUSY : ERR_IO, saved,
                               "cannot listen on %s:%s", host, port);
    }
    *ret_fd = fd;
    return 0;
}

static int port_of(struct error *e, int fd, uint16_t *ret)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot tell the port");
    *ret = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
    return 0;
}

int http_server_listen_tls(struct error *e, struct http_server *s, const char *host,
                           const char *port, struct tls_context *tls, http_on_node on_node,
                           uint16_t *ret_port)
{
    int fd = -1;
    uint16_t chosen = 0;
    int r = bind_tcp(e, host, port, &fd);
    if (r < 0)
        return r;
    r = port_of(e, fd, &chosen);
    if (r < 0) {
        close(fd);
        return r;
    }
    s->tls = tls;
    s->on_node = on_node;
    r = server_add_listener(e, s, fd, NULL, on_accept);
    if (r == 0)
        *ret_port = chosen;
    return r;
}

void http_server_replace_tls(struct http_server *s, struct tls_context *tls)
{
    s->tls = tls;
}
