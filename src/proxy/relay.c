#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/proxy_internal.h"

enum { ERROR_MAX = 512 };

static void pump(struct connection *c, enum side from, int64_t now_us);

/* ---- ends ---- */

static bool watch_end(struct connection *c, enum side side)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = &c->ends[side].watch};
    return epoll_ctl(c->proxy->epoll_fd, EPOLL_CTL_ADD, c->ends[side].fd, &event) == 0;
}

static void drop_waiting(struct waiting *w)
{
    free(w->bytes);
    *w = (struct waiting){0};
}

static void close_end(struct connection *c, enum side side)
{
    struct end *end = &c->ends[side];
    drop_waiting(&end->waiting);
    if (end->fd >= 0)
        close(end->fd); /* leaves epoll as well */
    if (end->fd >= 0 && side == BACKEND)
        backends_closed(&c->proxy->backends, c->port);
    *end = (struct end){.watch = end->watch, .fd = -1};
}

static void set_nodelay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void relay_new(struct proxy *p, int fd)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    c->proxy = p;
    c->ends[CLIENT] = (struct end){.watch = {WATCH_CLIENT, c}, .fd = fd};
    c->ends[BACKEND] = (struct end){.watch = {WATCH_BACKEND, c}, .fd = -1};
    list_init(&c->again);
    list_append(&p->connections, &c->link);
    p->connection_count++;
    observe_reconnect(c);
    set_nodelay(fd);
    if (!watch_end(c, CLIENT))
        relay_close(c);
}

void relay_close(struct connection *c)
{
    if (c->dead)
        return;
    c->dead = true;
    close_end(c, CLIENT);
    close_end(c, BACKEND);
    list_remove(&c->again);
    list_remove(&c->link);
    list_append(&c->proxy->dead, &c->link);
    c->proxy->connection_count--;
}

void relay_free(struct connection *c)
{
    list_remove(&c->link);
    free(c->requests);
    free(c->streams);
    free(c);
}

/* ---- sending ---- */

static void note_stall(struct connection *c, int64_t now_us)
{
    bool stalls = c->ends[CLIENT].waiting.length > 0;
    if (stalls && !c->stalled_since_us)
        c->stalled_since_us = now_us;
    if (!stalls && c->stalled_since_us) {
        c->stalled_us += now_us - c->stalled_since_us;
        c->stalled_since_us = 0;
    }
}

/* Sends without blocking. Returns the number of bytes sent, or -1 on an error of the peer. */
static ssize_t try_send(int fd, const char *bytes, size_t length)
{
    ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n >= 0 || (errno != EAGAIN && errno != EINTR) ? n : 0;
}

/* Sends, and keeps the rest. Nothing waits, unless the bytes are the proxy's own. Returns false if
 * the peer is gone, or memory is. */
static bool deliver(struct connection *c, enum side to, const char *bytes, size_t length,
                    int64_t now_us)
{
    struct end *end = &c->ends[to];
    struct waiting *w = &end->waiting;
    ssize_t sent = w->length ? 0 : try_send(end->fd, bytes, length);
    if (sent < 0)
        return false;
    if ((size_t)sent == length)
        return true;
    size_t rest = length - (size_t)sent;
    char *grown = malloc(w->length + rest);
    if (!grown)
        return false;
    if (w->length)
        memcpy(grown, w->bytes + w->start, w->length);
    memcpy(grown + w->length, bytes + sent, rest);
    free(w->bytes);
    *w = (struct waiting){.bytes = grown, .length = w->length + rest};
    note_stall(c, now_us);
    return true;
}

/* Sends what waits. Returns false if the peer is gone. */
static bool flush(struct connection *c, enum side to, int64_t now_us)
{
    struct end *end = &c->ends[to];
    struct waiting *w = &end->waiting;
    while (w->length > 0) {
        ssize_t sent = try_send(end->fd, w->bytes + w->start, w->length);
        if (sent <= 0)
            return sent == 0;
        w->start += (size_t)sent;
        w->length -= (size_t)sent;
    }
    drop_waiting(w);
    if (to == CLIENT)
        note_stall(c, now_us);
    return true;
}

static void shut_end(struct connection *c, enum side side)
{
    struct end *end = &c->ends[side];
    if (end->fd < 0 || end->shut || end->waiting.length > 0)
        return;
    shutdown(end->fd, SHUT_WR);
    end->shut = true;
    if (c->lingers && side == CLIENT)
        c->give_up_ms = clock_boot_ms() + LINGER_MS;
}

/* ---- the end of a connection ---- */

/* Delivers what the client has not taken, ends the stream, and waits until the client has ended its
 * own. Closing at once would make the kernel send a reset if the client's last bytes were not read,
 * and the reset would destroy the answer on its way. */
static void linger(struct connection *c, int64_t now_us)
{
    if (c->lingers)
        return;
    close_end(c, BACKEND);
    c->lingers = true;
    c->give_up_ms = now_us / 1000 + DELIVERY_MS;
    proxy_linger(c->proxy, now_us / 1000);
    if (c->ends[CLIENT].finished && c->ends[CLIENT].waiting.length == 0) {
        relay_close(c);
        return;
    }
    shut_end(c, CLIENT);
    if (c->ends[CLIENT].readable)
        pump(c, CLIENT, now_us);
}

void relay_end(struct connection *c)
{
    linger(c, clock_boot_us());
}

static void answer_error(struct connection *c, int status, const char *reason, const char *text,
                         int64_t now_us)
{
    char body[ERROR_MAX], head[ERROR_MAX];
    int body_length = snprintf(body, sizeof body, "gpumux: %s\n", text);
    int head_length = snprintf(head, sizeof head,
                               "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                               "Content-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n",
                               status, reason, body_length);
    if (deliver(c, CLIENT, head, (size_t)head_length, now_us) &&
        deliver(c, CLIENT, body, (size_t)body_length, now_us))
        linger(c, now_us);
    else
        relay_close(c);
}

/* No program accepts the connection: the request has not reached any. */
static void refuse(struct connection *c, int error, int64_t now_us)
{
    char first[4], text[ERROR_MAX / 2];
    close_end(c, BACKEND);
    /* HTTP/2 has no such answer: the end of the connection says that nothing was processed. */
    if (recv(c->ends[CLIENT].fd, first, sizeof first, MSG_PEEK | MSG_DONTWAIT) ==
            (ssize_t)sizeof first &&
        memcmp(first, "PRI ", sizeof first) == 0) {
        relay_close(c);
        return;
    }
    snprintf(text, sizeof text,
             "the service does not accept connections on port %d of its node (%s): it is starting, "
             "or has ended",
             c->port, strerror(error));
    answer_error(c, 503, "Service Unavailable", text, now_us);
}

/* The program has ended its stream, or its connection broke. */
static void backend_ended(struct connection *c, bool broke, int64_t now_us)
{
    struct end *client = &c->ends[CLIENT];
    c->ends[BACKEND].finished = true;
    if (!broke)
        observe_end(c, now_us);
    if (c->mode == MODE_TUNNEL && !broke) {
        shut_end(c, CLIENT);
        if (client->finished && client->shut)
            relay_close(c);
        return;
    }
    bool owes = c->mode == MODE_HTTP1 && observe_open_requests(c) > 0;
    bool may_answer = owes && !c->answer.begun && http1_is_idle(&c->http1[BACKEND]) &&
                      client->waiting.length == 0;
    if (may_answer && c->fresh)
        answer_error(c, 502, "Bad Gateway", "the service closed the connection before it answered",
                     now_us);
    else
        linger(c, now_us);
}

static void client_ended(struct connection *c, int64_t now_us)
{
    struct end *client = &c->ends[CLIENT];
    client->finished = true;
    bool waits = c->mode == MODE_TUNNEL || c->mode == MODE_H2 ||
                 (observe_open_requests(c) > 0 && http1_is_idle(&c->http1[CLIENT]));
    if (c->ends[BACKEND].fd < 0 || !waits || (c->ends[BACKEND].finished && client->shut)) {
        if (client->waiting.length == 0 || !c->lingers)
            relay_close(c);
        return;
    }
    shut_end(c, BACKEND);
    (void)now_us;
}

/* ---- the program's end ---- */

static void leave_backend(struct connection *c)
{
    close_end(c, BACKEND);
    observe_reconnect(c);
}

static void open_backend(struct connection *c, int64_t now_us)
{
    struct proxy *p = c->proxy;
    struct end *end = &c->ends[BACKEND];
    c->port = backends_choose(&p->backends);
    c->generation = p->backends.generation;
    c->fresh = true;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)c->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        refuse(c, errno, now_us);
        return;
    }
    end->fd = fd;
    backends_opened(&p->backends, c->port);
    set_nodelay(fd);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno != EINPROGRESS) {
            refuse(c, errno, now_us);
            return;
        }
        end->connecting = true;
    }
    if (!watch_end(c, BACKEND))
        refuse(c, errno, now_us);
}

static bool has_moved(const struct connection *c)
{
    return c->ends[BACKEND].fd >= 0 && c->generation != c->proxy->backends.generation &&
           !backends_has(&c->proxy->backends, c->port);
}

static bool is_quiet(const struct connection *c)
{
    return observe_is_idle(c) && c->ends[CLIENT].waiting.length == 0 &&
           c->ends[BACKEND].waiting.length == 0;
}

void relay_move(struct connection *c)
{
    if (c->dead || c->lingers || !has_moved(c))
        return;
    if (c->mode == MODE_HTTP1 && is_quiet(c))
        leave_backend(c);
    else if (c->mode == MODE_H2 && h2_is_between_frames(&c->h2[BACKEND])) {
        unsigned char frame[H2_GOAWAY_BYTES];
        h2_write_goaway(frame);
        c->generation = c->proxy->backends.generation; /* once */
        if (!deliver(c, CLIENT, (const char *)frame, sizeof frame, clock_boot_us()))
            relay_close(c);
    }
}

/* ---- the relay ---- */

static bool may_read(const struct connection *c, enum side from)
{
    const struct end *source = &c->ends[from], *to = &c->ends[!from];
    if (c->dead || source->fd < 0 || !source->readable || source->finished || source->connecting)
        return false;
    if (c->lingers)
        return from == CLIENT;
    if (to->waiting.length > 0)
        return false;
    return from == BACKEND || (to->fd >= 0 && !to->connecting && !to->shut && !c->awaits_upgrade &&
                               observe_open_requests(c) < PIPELINE_MAX);
}

/* Reads once and forwards. Returns false if nothing was read. */
static bool relay(struct connection *c, enum side from, int64_t *now_us)
{
    struct end *source = &c->ends[from];
    char *block = c->proxy->block;
    ssize_t n = recv(source->fd, block, RELAY_BYTES, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && errno == EAGAIN) {
        source->readable = false;
        return false;
    }
    if (n <= 0) {
        if (from == BACKEND)
            backend_ended(c, n < 0, *now_us);
        else if (n < 0)
            relay_close(c);
        else
            client_ended(c, *now_us);
        return false;
    }
    if (n < RELAY_BYTES && !source->hung_up)
        source->readable = false;
    if (c->lingers)
        return true;
    *now_us = clock_boot_us();
    if (from == BACKEND)
        c->fresh = false;
    observe(c, from, block, (size_t)n, *now_us);
    if (!deliver(c, (enum side) !from, block, (size_t)n, *now_us)) {
        if (from == CLIENT && c->mode == MODE_HTTP1)
            c->ends[BACKEND].readable = true; /* it may have answered before it closed */
        else
            relay_close(c);
        return false;
    }
    if (from == BACKEND)
        relay_move(c);
    return true;
}

static void pump(struct connection *c, enum side from, int64_t now_us)
{
    if (from == CLIENT && !c->dead && !c->lingers && c->ends[CLIENT].readable) {
        if (has_moved(c) && c->mode == MODE_HTTP1 && is_quiet(c))
            leave_backend(c);
        if (c->ends[BACKEND].fd < 0)
            open_backend(c, now_us);
    }
    for (int i = 0; may_read(c, from); i++) {
        if (i == RELAY_ROUNDS_MAX) {
            list_remove(&c->again);
            list_append(&c->proxy->again, &c->again);
            return;
        }
        if (!relay(c, from, &now_us))
            return;
    }
}

/* An answer may have been the reason not to read from the client. */
static void pump_both(struct connection *c, enum side first, int64_t now_us)
{
    pump(c, first, now_us);
    pump(c, (enum side) !first, now_us);
    if (first == CLIENT && !c->dead && c->ends[CLIENT].readable)
        pump(c, CLIENT, now_us);
}

void relay_continue(struct connection *c, int64_t now_us)
{
    list_remove(&c->again);
    pump_both(c, BACKEND, now_us);
}

/* Finishes connecting. Returns false if the program cannot be reached. */
static bool finish_connecting(struct connection *c, int64_t now_us)
{
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(c->ends[BACKEND].fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) {
        refuse(c, error, now_us);
        return false;
    }
    c->ends[BACKEND].connecting = false;
    return true;
}

void relay_event(struct connection *c, enum side side, uint32_t events, int64_t now_us)
{
    struct end *end = &c->ends[side];
    if (c->dead || end->fd < 0)
        return;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        end->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        end->hung_up = true;
    if (end->connecting && events & (EPOLLOUT | EPOLLHUP | EPOLLERR) &&
        !finish_connecting(c, now_us))
        return;
    if (events & EPOLLOUT && end->waiting.length > 0) {
        if (!flush(c, side, now_us)) {
            relay_close(c);
            return;
        }
        if (end->waiting.length == 0 && (c->lingers || c->ends[!side].finished))
            shut_end(c, side);
    }
    if (c->lingers && end->waiting.length == 0 && end->finished) {
        relay_close(c);
        return;
    }
    pump_both(c, side, now_us);
}
