#include "wire/http/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tls/session.h"
#include "wire/address.h"

enum {
    WAIT_PIECE_MS = 1000,
    RECEIVE_BYTES = 64 << 10,
    ERROR_BODY_MAX = 64 << 10,
    HEAD_BYTES_MAX = 16 << 10
};

struct http_client {
    struct address address;      /* address of the TLS server */
    struct tls_context *context; /* NULL: a unix socket */
    struct tls_session *tls;     /* NULL while not connected */
    char *where, *token;         /* where: a path or HOST:PORT, for people; token NULL: none */
    int fd;
    struct http_parser parser;
    struct str body;
    http_body_fn on_body;
    void *arg;
    bool answered; /* a byte of the current response has come */
    bool under_way;
    http_wait_fn on_wait; /* NULL: none */
    void *wait_arg;
    char buffer[RECEIVE_BYTES];
};

static struct http_client *client_new(const char *where)
{
    struct http_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->fd = -1;
    str_init(&c->body, HTTP_CLIENT_BODY_MAX);
    c->where = strdup(where);
    if (!c->where) {
        http_client_free(c);
        return NULL;
    }
    return c;
}

struct http_client *http_client_new(const char *socket_path)
{
    const struct sockaddr_un *address = NULL;
    return strlen(socket_path) < sizeof address->sun_path ? client_new(socket_path) : NULL;
}

struct http_client *http_client_new_tls(const struct address *address, struct tls_context *tls,
                                        const char *token)
{
    struct str where;
    str_init(&where, ADDRESS_TEXT_MAX);
    address_write(address, &where);
    struct http_client *c = client_new(str_text(&where));
    str_done(&where);
    if (!c)
        return NULL;
    c->address = *address;
    c->context = tls;
    c->token = token ? strdup(token) : NULL;
    if (token && !c->token) {
        http_client_free(c);
        return NULL;
    }
    return c;
}

void http_client_close(struct http_client *c)
{
    if (c->tls)
        tls_session_shutdown(c->tls);
    tls_session_free(c->tls);
    c->tls = NULL;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    if (c->under_way)
        http_parser_done(&c->parser);
    c->under_way = false;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    http_client_close(c);
    str_done(&c->body);
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    free(c->token);
    free(c->where);
    free(c);
}

int http_client_fd(const struct http_client *c)
{
    return c->fd;
}

int http_client_status(const struct http_client *c)
{
    return c->parser.head.status;
}

const char *http_client_type(const struct http_client *c)
{
    return c->parser.head.content_type;
}

const char *http_client_server(const struct http_client *c)
{
    return c->parser.head.server;
}

const char *http_client_body(const struct http_client *c, size_t *ret_length)
{
    if (ret_length)
        *ret_length = c->body.length;
    return str_text(&c->body);
}

void http_client_on_wait(struct http_client *c, http_wait_fn on_wait, void *arg)
{
    c->on_wait = on_wait;
    c->wait_arg = arg;
}

static int wait_for(struct error *e, struct http_client *c, short events, int64_t deadline_boot_ms)
{
    for (int64_t since = clock_boot_ms();;) {
        int64_t left = deadline_boot_ms - clock_boot_ms();
        struct pollfd p = {.fd = c->fd, .events = events};
        int n = poll(&p, 1, left < 0 ? 0 : left > WAIT_PIECE_MS ? WAIT_PIECE_MS : (int)left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return error_set_errno(e, ERR_IO, errno, "cannot wait for the socket");
        if (n == 0 && left <= 0)
            return error_set(e, ERR_TIMEOUT, "no answer in time");
        if (n == 0 && left > WAIT_PIECE_MS && c->on_wait)
            c->on_wait(c->wait_arg, since, deadline_boot_ms);
    }
}

/* ---- connecting ---- */

static int connect_unix(struct error *e, struct http_client *c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof address.sun_path, c->where);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot create a socket");
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) == 0)
        return 0;
    return error_set_errno(e, errno == EACCES ? ERR_DENIED : ERR_UNAVAILABLE, errno,
                           "cannot connect to %s", c->where);
}

/* Connects to one address of the host. */
static int connect_tcp(struct error *e, struct http_client *c, const struct addrinfo *to,
                       int64_t deadline_boot_ms)
{
    const int yes = 1;
    c->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot create a socket");
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    int failed = connect(c->fd, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    socklen_t size = sizeof failed;
    int r = failed == EINPROGRESS ? wait_for(e, c, POLLOUT, deadline_boot_ms) : 0;
    if (r == 0 && failed == EINPROGRESS)
        (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failed, &size);
    if (r == 0 && failed)
        r = error_set_errno(e, ERR_UNAVAILABLE, failed, "cannot connect to %s", c->where);
    if (r < 0)
        http_client_close(c);
    return r;
}

static int shake_hands(struct error *e, struct http_client *c, int64_t deadline_boot_ms)
{
    enum tls_want want = TLS_WANT_WRITE;
    int r = tls_session_new(e, c->context, c->fd, c->address.host, &c->tls);
    while (r == 0 && (r = tls_session_handshake(e, c->tls, &want)) == 0 && want != TLS_DONE)
        r = wait_for(e, c, want == TLS_WANT_READ ? POLLIN : POLLOUT, deadline_boot_ms);
    return r;
}

static int connect_tls(struct error *e, struct http_client *c, int64_t deadline_boot_ms)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(c->address.host, c->address.port, &hints, &found);
    if (failed)
        return error_set(e, ERR_UNAVAILABLE, "cannot connect to %s: %s", c->where,
                         gai_strerror(failed));
    int r = -ERR_UNAVAILABLE;
    for (const struct addrinfo *to = found; to && r == -ERR_UNAVAILABLE; to = to->ai_next)
        r = connect_tcp(e, c, to, deadline_boot_ms);
    freeaddrinfo(found);
    return r < 0 ? r : shake_hands(e, c, deadline_boot_ms);
}

static int connect_now(struct error *e, struct http_client *c, int64_t deadline_boot_ms)
{
    int r = c->context ? connect_tls(e, c, deadline_boot_ms) : connect_unix(e, c);
    if (r < 0)
        http_client_close(c);
    return r;
}

/* ---- sending and receiving ---- */

/* Sends bytes. 0 bytes: the socket must first be ready for *ret_events. */
static int put_bytes(struct error *e, struct http_client *c, const char *bytes, size_t length,
                     size_t *ret_bytes, short *ret_events)
{
    *ret_bytes = 0;
    *ret_events = POLLOUT;
    if (c->tls) {
        enum tls_want want = TLS_DONE;
        int r = tls_session_write(e, c->tls, bytes, length, ret_bytes, &want);
        if (want == TLS_WANT_READ)
            *ret_events = POLLIN;
        return r;
    }
    ssize_t n = send(c->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot send to %s", c->where);
    *ret_bytes = n > 0 ? (size_t)n : 0;
    return 0;
}

/* Reads into the buffer. 0 bytes: nothing is there yet, or (*ret_end) the peer has closed. */
static int take_bytes(struct error *e, struct http_client *c, size_t *ret_bytes, bool *ret_end)
{
    *ret_bytes = 0;
    *ret_end = false;
    if (c->tls) {
        enum tls_want want;
        int r = tls_session_read(e, c->tls, c->buffer, sizeof c->buffer, ret_bytes, &want);
        *ret_end = r == 0 && want == TLS_DONE && *ret_bytes == 0;
        return r;
    }
    ssize_t n = recv(c->fd, c->buffer, sizeof c->buffer, MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return error_set_errno(e, ERR_UNAVAILABLE, errno, "the connection to %s broke", c->where);
    *ret_bytes = n > 0 ? (size_t)n : 0;
    *ret_end = n == 0;
    return 0;
}

static int send_all(struct error *e, struct http_client *c, const char *bytes, size_t length,
                    int64_t deadline_boot_ms)
{
    while (length > 0) {
        size_t taken;
        short events;
        int r = put_bytes(e, c, bytes, length, &taken, &events);
        bytes += taken;
        length -= taken;
        if (r == 0 && taken == 0)
            r = wait_for(e, c, events, deadline_boot_ms);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Passes the body to a streaming caller; the text of an error response is collected instead. */
static int take_body(void *arg, const char *bytes, size_t length)
{
    struct http_client *c = arg;
    bool is_error = c->parser.head.status >= 300;
    if (c->on_body && !is_error)
        return c->on_body(c->arg, bytes, length);
    if (is_error && c->body.length + length > ERROR_BODY_MAX)
        return -ERR_TOO_LARGE;
    str_append_bytes(&c->body, bytes, length);
    return str_failed(&c->body) ? -ERR_TOO_LARGE : 0;
}

static void append_header(struct str *out, const char *name, const char *value)
{
    if (value)
        str_printf(out, "%s: %s\r\n", name, value);
}

/* Returns whether the peer closed the idle connection, before anything is sent. */
static bool is_stale(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

int http_client_send(struct error *e, struct http_client *c, const struct http_call *call)
{
    int64_t deadline = clock_boot_ms() + call->timeout_ms;
    if (c->under_way || (c->fd >= 0 && is_stale(c->fd)))
        http_client_close(c);
    if (c->fd < 0) {
        int r = connect_now(e, c, deadline);
        if (r < 0)
            return r;
    }
    str_clear(&c->body);
    c->on_body = call->on_body;
    c->arg = call->arg;
    c->answered = false;
    http_parser_init(&c->parser, take_body, c);
    c->under_way = true;

    struct str out;
    str_init(&out, HEAD_BYTES_MAX + call->body_length);
    str_printf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\n", call->method, call->target,
               c->context ? c->where : "gpumux");
    if (c->token)
        str_printf(&out, "Authorization: Bearer %s\r\n", c->token);
    append_header(&out, "Accept", call->accept);
    append_header(&out, "Content-Type", call->content_type);
    append_header(&out, "Idempotency-Key", call->idempotency_key);
    if (call->body || strcmp(call->method, "POST") == 0)
        str_printf(&out, "Content-Length: %zu\r\n", call->body_length);
    str_append(&out, "\r\n");
    if (call->body_length > 0)
        str_append_bytes(&out, call->body, call->body_length);
    int r = str_failed(&out) ? error_set(e, ERR_TOO_LARGE, "the request is too large")
                             : send_all(e, c, str_text(&out), out.length, deadline);
    if (c->token && out.data)
        explicit_bzero(out.data, out.length);
    str_done(&out);
    if (r < 0)
        http_client_close(c);
    return r;
}

/* Ends a complete response; the head stays available. */
static void finish(struct http_client *c)
{
    bool again = c->parser.head.keep_alive;
    http_parser_done(&c->parser);
    c->under_way = false;
    if (!again)
        http_client_close(c);
}

int http_client_receive(struct error *e, struct http_client *c, int64_t timeout_ms, bool *ret_done)
{
    *ret_done = false;
    int r = wait_for(NULL, c, POLLIN, clock_boot_ms() + timeout_ms);
    if (r == -ERR_TIMEOUT && timeout_ms == 0)
        return 0;
    if (r == -ERR_TIMEOUT)
        return error_set(e, ERR_TIMEOUT, "no answer in time");
    size_t n = 0, used = 0;
    bool ended = false;
    r = take_bytes(e, c, &n, &ended);
    if (r == 0 && ended) {
        r = c->answered ? http_parser_end(e, &c->parser)
                        : error_set_errno(e, ERR_UNAVAILABLE, ECONNRESET,
                                          "the connection to %s broke", c->where);
        c->parser.head.keep_alive = false;
    } else if (r == 0 && n > 0) {
        c->answered = true;
        r = http_parser_feed(e, &c->parser, c->buffer, n, &used);
        if (r == 0 && used < n)
            c->parser.head.keep_alive = false; /* unrequested bytes */
    } else if (r == 0) {
        return 0;
    }
    if (r < 0) {
        http_client_close(c);
        return r;
    }
    if (http_parser_is_done(&c->parser)) {
        finish(c);
        *ret_done = true;
    }
    return 0;
}

int http_client_call(struct error *e, struct http_client *c, const struct http_call *call)
{
    int64_t deadline = clock_boot_ms() + call->timeout_ms;
    int r = http_client_send(e, c, call);
    for (bool done = false; r == 0 && !done;) {
        int64_t left = deadline - clock_boot_ms();
        r = http_client_receive(e, c, left > 0 ? left : 1, &done);
    }
    if (r < 0)
        http_client_close(c);
    return r;
}

void http_append_encoded(struct str *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c);
        if (plain)
            str_append_char(out, (char)c);
        else
            str_printf(out, "%%%02X", c);
    }
}
