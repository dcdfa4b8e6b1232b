/* The server: listening sockets, connections, time limits. */
#include "endpoint/http.h"

#include <errno.h>
#include <event2/listener.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "endpoint/connection_internal.h"

enum { LISTEN_BACKLOG = 512, SWEEP_MS_MAX = 1000, SWEEP_MS_MIN = 20 };

const char *server_date(struct http_server *s)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    struct tm tm;
    if (now != s->date_second && gmtime_r(&now, &tm)) {
        strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        s->date_second = now;
    }
    return s->date;
}

/* ---- time limits ---- */

static void schedule_sweep(struct http_server *s)
{
    const struct http_timeouts *t = &s->timeouts;
    int64_t shortest = t->request_ms < t->answer_ms ? t->request_ms : t->answer_ms;
    if (t->idle_ms < shortest)
        shortest = t->idle_ms;
    int64_t every = shortest / 4 < SWEEP_MS_MAX ? shortest / 4 : SWEEP_MS_MAX;
    if (every < SWEEP_MS_MIN)
        every = SWEEP_MS_MIN;
    struct timeval tv = {.tv_sec = every / 1000, .tv_usec = every % 1000 * 1000};
    (void)evtimer_add(s->sweep, &tv);
}

static struct connection *overdue(const struct http_server *s, int64_t now_ms)
{
    list_for_each (it, &s->connections) {
        struct connection *c = list_entry(it, struct connection, link);
        if (c->deadline_ms <= now_ms)
            return c;
    }
    return NULL;
}

/* Enforces all time limits with one timer, so that a request sets none. */
static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct http_server *s = arg;
    int64_t now_ms = clock_boot_ms();
    struct connection *c;
    while ((c = overdue(s, now_ms))) /* restart: closing a stream may close others */
        connection_close(c);
    handshakes_end_overdue(s, now_ms);
    list_for_each (it, &s->listeners) { /* disabled when descriptors ran out */
        evconnlistener_enable(list_entry(it, struct listener, link)->accepts);
    }
    if (!list_empty(&s->connections) || !list_empty(&s->handshakes))
        schedule_sweep(s);
}

void server_watch_time(struct http_server *s)
{
    if (!evtimer_pending(s->sweep, NULL))
        schedule_sweep(s);
}

void http_server_set_timeouts(struct http_server *s, const struct http_timeouts *timeouts)
{
    s->timeouts = *timeouts;
}

/* ---- accepting ---- */

static bool is_admin(const struct http_peer *peer)
{
    return peer->kind == HTTP_PEER_UNIX && (peer->uid == 0 || peer->uid == geteuid());
}

/* All peers from the network count as one user, because each request has its own identity. */
static bool is_same_user(const struct http_peer *a, const struct http_peer *b)
{
    return (a->kind == HTTP_PEER_UNIX) == (b->kind == HTTP_PEER_UNIX) && a->uid == b->uid;
}

static size_t count_of_user(const struct http_server *s, const struct http_peer *peer)
{
    size_t count = 0;
    list_for_each (it, &s->connections)
        count += is_same_user(&list_entry(it, struct connection, link)->peer, peer);
    return count;
}

/* Administrators can end the work of other users, so that they may use every connection, and a few
 * connections are reserved for them. */
const char *server_refuses(const struct http_server *s, const struct http_peer *peer)
{
    size_t open = s->counters.connections_open, part = s->connections_max / HTTP_CONNECTIONS_PART;
    bool has_part = peer->kind == HTTP_PEER_UNIX && !is_admin(peer);
    size_t kept = part < HTTP_CONNECTIONS_KEPT ? part : HTTP_CONNECTIONS_KEPT;
    size_t most = part > HTTP_CONNECTIONS_LEAST ? part : HTTP_CONNECTIONS_LEAST;
    if (open >= s->connections_max - (is_admin(peer) ? 0 : kept))
        return "too many connections are open already";
    if (has_part && count_of_user(s, peer) >= most)
        return "you have too many connections open already: end some commands that wait or follow, "
               "or have connections_max raised";
    return NULL;
}

bool server_has_room(const struct http_server *s, const struct http_peer *peer, size_t bytes)
{
    size_t all = bytes, own = bytes;
    list_for_each (it, &s->connections) {
        const struct connection *c = list_entry(it, struct connection, link);
        size_t taken = c->in_capacity > HTTP_HEADER_MAX ? c->in_capacity : 0;
        all += taken;
        own += is_same_user(&c->peer, peer) ? taken : 0;
    }
    return all <= HTTP_INPUT_MAX && (is_admin(peer) || own <= HTTP_INPUT_MAX / HTTP_INPUT_PART);
}

size_t server_write_refusal(struct http_server *s, const char *why, char *text, size_t size)
{
    char body[HTTP_REFUSAL_MAX];
    int body_length = snprintf(body, sizeof body,
                               "{\"type\":\"urn:gpumux:problem:unavailable\","
                               "\"title\":\"not available now, try again\",\"status\":503,"
                               "\"detail\":\"%s\"}",
                               why);
    s->counters.connections_refused++;
    int length = snprintf(text, size,
                          "HTTP/1.1 503 Service Unavailable\r\n" HTTP_SERVER_LINE
                          "Content-Type: application/problem+json\r\nContent-Length: %d\r\n"
                          "Connection: close\r\n\r\n%s",
                          body_length, body);
    return (size_t)length < size ? (size_t)length : 0;
}

static void on_accept(struct evconnlistener *accepts, evutil_socket_t fd, struct sockaddr *address,
                      int address_length, void *arg)
{
    (void)accepts, (void)address, (void)address_length;
    struct http_server *s = ((struct listener *)arg)->server;
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0) {
        close(fd); /* a peer without identity is refused */
        return;
    }
    struct http_peer peer = {.kind = HTTP_PEER_UNIX,
                             .uid = credentials.uid,
                             .gid = credentials.gid,
                             .pid = credentials.pid};
    const char *why = server_refuses(s, &peer);
    if (why) {
        char text[HTTP_REFUSAL_MAX];
        size_t refusal = server_write_refusal(s, why, text, sizeof text);
        (void)send(fd, text, refusal, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
        return;
    }
    if (connection_new(s, fd, NULL, &peer) < 0)
        log_write(s->log, LOG_ERROR, "connection dropped", "reason=memory");
    else
        server_watch_time(s);
}

/* Without a free descriptor the loop would spin on the waiting connection, so that accepting pauses
 * until the next sweep. */
static void on_accept_error(struct evconnlistener *accepts, void *arg)
{
    struct http_server *s = ((struct listener *)arg)->server;
    log_write(s->log, LOG_WARN, "connection accept failed", "error=\"%s\"", strerror(errno));
    evconnlistener_disable(accepts);
    server_watch_time(s);
}

static bool socket_answers(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true; /* not known to be dead */
    bool refused = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 &&
                   (errno == ECONNREFUSED || errno == ENOENT);
    close(fd);
    return !refused;
}

/* Binds a socket and sets its mode; nobody can connect before the socket listens. */
static int bind_unix(struct error *e, const char *path, mode_t mode, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!str_copy(address.sun_path, sizeof address.sun_path, path))
        return error_set(e, ERR_INVALID,
                         "the socket's path %s is longer than the %zu bytes that the system allows",
                         path, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "no socket for %s", path);
    int r = bind(fd, (struct sockaddr *)&address, sizeof address);
    struct stat st;
    if (r < 0 && errno == EADDRINUSE && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        if (socket_answers(&address)) {
            close(fd);
            return error_set(e, ERR_BUSY, "another program listens on %s", path);
        }
        (void)unlink(path);
        r = bind(fd, (struct sockaddr *)&address, sizeof address);
    }
    if (r < 0 || chmod(path, mode) < 0) {
        int saved = errno;
        close(fd);
        return error_set_errno(e, ERR_IO, saved, "cannot listen on %s", path);
    }
    *ret_fd = fd;
    return 0;
}

static void listener_free(struct listener *l)
{
    list_remove(&l->link);
    if (l->accepts)
        evconnlistener_free(l->accepts);
    if (l->path)
        (void)unlink(l->path);
    free(l->path);
    free(l);
}

int server_add_listener(struct error *e, struct http_server *s, int fd, const char *path,
                        void (*accepted)(struct evconnlistener *, int, struct sockaddr *, int,
                                         void *))
{
    struct listener *l = calloc(1, sizeof *l);
    if (l) {
        list_init(&l->link);
        l->server = s;
        l->path = path ? strdup(path) : NULL;
        l->accepts =
            evconnlistener_new(s->base, accepted, l, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                               LISTEN_BACKLOG, fd);
    }
    if (!l || (path && !l->path) || !l->accepts) {
        if (!l || !l->accepts)
            close(fd);
        if (l)
            listener_free(l);
        return error_set(e, ERR_IO, "cannot listen%s%s", path ? " on " : "", path ? path : "");
    }
    evconnlistener_set_error_cb(l->accepts, on_accept_error);
    list_append(&s->listeners, &l->link);
    return 0;
}

int http_server_listen_unix(struct error *e, struct http_server *s, const char *path, mode_t mode)
{
    int fd;
    int r = bind_unix(e, path, mode, &fd);
    return r < 0 ? r : server_add_listener(e, s, fd, path, on_accept);
}

/* ---- the server ---- */

int http_server_new(struct error *e, struct event_base *base, const struct log *log,
                    const struct http_route *routes, void *context, size_t connections_max,
                    struct http_server **ret)
{
    struct http_server *s = calloc(1, sizeof *s);
    struct event *sweep = s ? evtimer_new(base, on_sweep, s) : NULL;
    if (!sweep) {
        free(s);
        return error_set(e, ERR_NO_MEMORY, "no memory for a server");
    }
    *s = (struct http_server){
        .base = base,
        .log = log,
        .routes = routes,
        .context = context,
        .connections_max = connections_max,
        .sweep = sweep,
        .timeouts = {.request_ms = HTTP_REQUEST_MS,
                     .idle_ms = HTTP_IDLE_MS,
                     .answer_ms = HTTP_ANSWER_MS,
                     .handshake_ms = HTTP_HANDSHAKE_MS},
        .date_second = -1,
    };
    list_init(&s->connections);
    list_init(&s->listeners);
    list_init(&s->handshakes);
    *ret = s;
    return 0;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    while (!list_empty(&s->listeners))
        listener_free(list_entry(s->listeners.next, struct listener, link));
    handshakes_end_all(s);
    while (!list_empty(&s->connections))
        connection_close(list_entry(s->connections.next, struct connection, link));
    event_free(s->sweep);
    free(s);
}

void http_server_count(const struct http_server *s, struct http_counters *ret)
{
    *ret = s->counters;
}

void http_server_set_authorize(struct http_server *s, http_authorize authorize)
{
    s->authorize = authorize;
}

static struct connection *stream_of(const struct http_server *s, uint64_t token)
{
    list_for_each (it, &s->connections) {
        struct connection *c = list_entry(it, struct connection, link);
        if (c->stream && c->stream->token == token)
            return c;
    }
    return NULL;
}

void http_server_end_token(struct http_server *s, uint64_t token)
{
    struct connection *c;
    while ((c = stream_of(s, token))) /* restart: closing a stream may close others */
        connection_close(c);
}
