#include "wire/http_client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

enum { RECEIVE_BYTES = 64 << 10, ERROR_BODY_MAX = 64 << 10, HEAD_BYTES_MAX = 16 << 10 };

struct http_client {
    struct sockaddr_un address;
    int fd;
    struct http_parser parser;
    struct str body;
    http_body_fn on_body;
    void *arg;
    bool answered; /* a byte of the current answer came */
    bool under_way;
    char buffer[RECEIVE_BYTES];
};

struct http_client *http_client_new(const char *socket_path)
{
    struct http_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->fd = -1;
    c->address.sun_family = AF_UNIX;
    str_init(&c->body, HTTP_CLIENT_BODY_MAX);
    if (!str_copy(c->address.sun_path, sizeof c->address.sun_path, socket_path)) {
        http_client_free(c);
        return NULL;
    }
    return c;
}

void http_client_close(struct http_client *c)
{
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

static int connect_now(struct error *e, struct http_client *c)
{
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot make a socket");
    if (connect(c->fd, (struct sockaddr *)&c->address, sizeof c->address) == 0)
        return 0;
    int failure = errno;
    http_client_close(c);
    return error_set_errno(e, failure == EACCES ? ERR_DENIED : ERR_UNAVAILABLE, failure,
                           "cannot connect to %s", c->address.sun_path);
}

static int wait_for(struct error *e, int fd, short events, int64_t deadline_boot_ms)
{
    for (;;) {
        int64_t left = deadline_boot_ms - clock_boot_ms();
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return error_set_errno(e, ERR_IO, errno, "cannot wait for the socket");
        if (n == 0 && left <= 0)
            return error_set(e, ERR_TIMEOUT, "no answer in time");
    }
}

static int send_all(struct error *e, struct http_client *c, const char *bytes, size_t length,
                    int64_t deadline_boot_ms)
{
    while (length > 0) {
        ssize_t n = send(c->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
            continue;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return error_set_errno(e, ERR_UNAVAILABLE, errno, "cannot send to %s",
                                   c->address.sun_path);
        int r = wait_for(e, c->fd, POLLOUT, deadline_boot_ms);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A body for a streaming caller only if it is one: the text of an error is gathered instead. */
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

/* A connection that the other side closed while it was idle is noticed before anything is sent. */
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
        int r = connect_now(e, c);
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
    str_printf(&out, "%s %s HTTP/1.1\r\nHost: gpumux\r\n", call->method, call->target);
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
    str_done(&out);
    if (r < 0)
        http_client_close(c);
    return r;
}

/* The answer is whole: the parser goes, what it read of the head stays. */
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
    int r = wait_for(NULL, c->fd, POLLIN, clock_boot_ms() + timeout_ms);
    if (r == -ERR_TIMEOUT && timeout_ms == 0)
        return 0;
    if (r == -ERR_TIMEOUT)
        return error_set(e, ERR_TIMEOUT, "no answer in time");
    ssize_t n = recv(c->fd, c->buffer, sizeof c->buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    size_t used = 0;
    if (n <= 0) {
        r = c->answered && n == 0
                ? http_parser_end(e, &c->parser)
                : error_set_errno(e, ERR_UNAVAILABLE, n < 0 ? errno : ECONNRESET,
                                  "the connection to %s broke", c->address.sun_path);
        c->parser.head.keep_alive = false;
    } else {
        c->answered = true;
        r = http_parser_feed(e, &c->parser, c->buffer, (size_t)n, &used);
        if (r == 0 && used < (size_t)n)
            c->parser.head.keep_alive = false; /* bytes that nobody asked for */
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
