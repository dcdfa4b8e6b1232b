#include "proxy/scrape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_MAX = 512 };

static void hang_up(struct scrape *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->limit_ms = INT64_MAX;
}

static void fail(struct scrape *s, int64_t now_ms)
{
    hang_up(s);
    s->failures++;
    /* A guess may be wrong for ever; a server that the description names may be starting. */
    bool seldom = s->adapter.kind == ADAPTER_AUTO && !s->adapter.has_found &&
                  s->failures > ADAPTER_EMPTY_PAGES;
    s->next_ms = now_ms + (seldom ? SCRAPE_SELDOM_MS : SCRAPE_EVERY_MS);
}

void scrape_step(struct scrape *s, int64_t now_ms)
{
    if (now_ms >= s->limit_ms) {
        fail(s, now_ms);
        return;
    }
    if (now_ms < s->next_ms)
        return;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = s->watch};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    s->next_ms = INT64_MAX;
    s->limit_ms = now_ms + SCRAPE_LIMIT_MS;
    s->sent = false;
    s->bytes = 0;
    http1_init(&s->parser, true);
    adapter_begin(&s->adapter);
    if (s->fd < 0 ||
        (connect(s->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->fd, &event) < 0)
        fail(s, now_ms);
}

static bool send_request(struct scrape *s)
{
    char request[REQUEST_MAX];
    int length = snprintf(request, sizeof request,
                          "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: gpumux\r\n"
                          "Accept: text/plain;version=0.0.4\r\nConnection: close\r\n\r\n",
                          s->path, s->port);
    s->sent = true; /* a new connection has room for it */
    return send(s->fd, request, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length;
}

/* Reads bytes of the answer. Returns 1 at its end, 0 before, -1 for an answer without a page. */
static int take_bytes(struct scrape *s, const char *bytes, size_t length)
{
    size_t used = 0, step;
    for (;;) {
        enum http1_event event = http1_next(&s->parser, bytes + used, length - used, &step);
        if (event == HTTP1_BODY) {
            s->bytes += step;
            if (s->bytes > SCRAPE_PAGE_MAX)
                return -1;
            adapter_feed(&s->adapter, bytes + used, step);
        }
        used += step;
        if (event == HTTP1_BAD || (event == HTTP1_HEAD && s->parser.head.status != SCRAPE_HTTP_OK))
            return -1;
        if (event == HTTP1_END)
            return 1;
        if (event == HTTP1_MORE)
            return 0;
    }
}

bool scrape_event(struct scrape *s, char *block, size_t size, int64_t now_ms)
{
    int error = 0, state = 0;
    socklen_t length = sizeof error;
    ssize_t n = -1;
    if (s->fd < 0)
        return false;
    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error || (!s->sent && !send_request(s))) {
        fail(s, now_ms);
        return false;
    }
    while (state == 0 && (n = recv(s->fd, block, size, MSG_DONTWAIT)) > 0)
        state = take_bytes(s, block, (size_t)n);
    if (state == 0 && n == 0)
        state = http1_ends_with_connection(&s->parser) ? 1 : -1;
    if (state == 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (state != 1) {
        fail(s, now_ms);
        return false;
    }
    hang_up(s);
    s->failures = 0;
    bool seldom = s->adapter.kind == ADAPTER_AUTO && !s->adapter.has_found &&
                  s->adapter.empty_pages > ADAPTER_EMPTY_PAGES;
    s->next_ms = now_ms + (seldom ? SCRAPE_SELDOM_MS : SCRAPE_EVERY_MS);
    return true;
}

int64_t scrape_next_ms(const struct scrape *s)
{
    return s->next_ms < s->limit_ms ? s->next_ms : s->limit_ms;
}

void scrape_done(struct scrape *s)
{
    hang_up(s);
    s->next_ms = INT64_MAX;
}
