/*
 * load_server [OPTION...]: the HTTP server of the test of `gpumux load`. The server has one thread,
 * so that a stall delays every connection. Prints its port, or "ready" for a unix socket. Paths:
 *
 *   /             200 with a short body
 *   /status/N     status N
 *   /echo         200 with the request's body
 *   /chunks       three chunks, 20 ms apart, one byte each; the server handles nothing meanwhile
 *   /events       the same as server-sent events
 *   /close        200 with "Connection: close", then the server closes the connection
 *   /cut          closes the connection in the middle of the body
 *   /garbage      an answer that is not HTTP
 *   /never        no answer
 *
 *   --unix PATH   listens on a unix socket instead of a free port of 127.0.0.1
 *   --stall N MS  sleeps for MS milliseconds after request number N
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 64, DESCRIPTORS_MAX = 8192, REQUEST_MAX = 1 << 20, HEAD_MAX = 256 };

struct client {
    char *text; /* bytes of the request so far */
    size_t length;
};

struct server {
    int epoll, listener;
    long served, stall_at, stall_ms;
    struct client clients[DESCRIPTORS_MAX];
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void watch(struct server *s, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll_ctl");
}

static void end_client(struct server *s, int fd)
{
    free(s->clients[fd].text);
    s->clients[fd] = (struct client){0};
    close(fd);
}

static void send_all(int fd, const char *bytes, size_t length, int flags)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL | flags);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* the generator gave up */
        bytes += n;
        length -= (size_t)n;
    }
}

/* Sends head and body together: a small second packet would wait for the acknowledgement of the
 * first. */
static void answer(int fd, int status, const char *header, const char *body, size_t length)
{
    char head[HEAD_MAX];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n", status,
                     header, length);
    send_all(fd, head, (size_t)n, length > 0 ? MSG_MORE : 0);
    send_all(fd, body, length, 0);
}

static void send_text(int fd, const char *text)
{
    send_all(fd, text, strlen(text), 0);
}

static void send_stream(int fd, const char *type, const char *chunk)
{
    char head[HEAD_MAX];
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    (void)snprintf(head, sizeof head,
                   "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
                   type);
    send_text(fd, head);
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            sleep_ms(20);
        send_text(fd, chunk);
    }
    send_text(fd, "0\r\n\r\n");
}

/* Handles one request. Returns false if the connection ends. */
static int handle(struct server *s, int fd, const char *path, const char *body, size_t length)
{
    int stays = 1;
    if (strncmp(path, "/status/", 8) == 0) {
        answer(fd, (int)strtol(path + 8, NULL, 10), "", "no", 2);
    } else if (strncmp(path, "/echo", 5) == 0) {
        answer(fd, 200, "", body, length);
    } else if (strncmp(path, "/chunks", 7) == 0) {
        send_stream(fd, "text/plain", "1\r\nx\r\n");
    } else if (strncmp(path, "/events", 7) == 0) {
        send_stream(fd, "text/event-stream", "9\r\ndata: x\n\n\r\n");
    } else if (strncmp(path, "/close", 6) == 0) {
        answer(fd, 200, "Connection: close\r\n", "bye", 3);
        stays = 0;
    } else if (strncmp(path, "/cut", 4) == 0) {
        send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        stays = 0;
    } else if (strncmp(path, "/garbage", 8) == 0) {
        send_text(fd, "SSH-2.0-nothing\r\n\r\n");
    } else if (strncmp(path, "/never", 6) != 0) {
        answer(fd, 200, "", "hello", 5);
    }
    if (++s->served == s->stall_at)
        sleep_ms(s->stall_ms);
    return stays;
}

/* Handles a complete request at the start of the text. Returns its length, 0 if more bytes are
 * needed, -1 if the connection ended. */
static long take_request(struct server *s, int fd, struct client *c)
{
    char *end = memmem(c->text, c->length, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t head = (size_t)(end - c->text) + 4, body = 0;
    *end = '\0';
    const char *length = strcasestr(c->text, "\r\nContent-Length:");
    if (length)
        body = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    if (c->length - head < body) {
        *end = '\r';
        return 0;
    }
    const char *path = strchr(c->text, ' ');
    if (!path || !handle(s, fd, path + 1, c->text + head, body)) {
        end_client(s, fd);
        return -1;
    }
    return (long)(head + body);
}

static void read_client(struct server *s, int fd)
{
    struct client *c = &s->clients[fd];
    if (!c->text)
        c->text = calloc(1, REQUEST_MAX + 1);
    if (!c->text)
        die("calloc");
    ssize_t n = recv(fd, c->text + c->length, REQUEST_MAX - c->length, 0);
    if (n <= 0) {
        end_client(s, fd);
        return;
    }
    c->length += (size_t)n;
    c->text[c->length] = '\0';
    for (long used; (used = take_request(s, fd, c)) != 0;) {
        if (used < 0)
            return;
        c->length -= (size_t)used;
        memmove(c->text, c->text + used, c->length + 1);
    }
}

static int listen_tcp(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) < 0 || listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&any, &(socklen_t){sizeof any}) < 0)
        die("listen");
    printf("%d\n", ntohs(any.sin_port));
    return fd;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) < 0 || listen(fd, 1024) < 0)
        die("listen");
    puts("ready");
    return fd;
}

int main(int argc, char **argv)
{
    static struct server s;
    struct epoll_event events[EVENTS_MAX];
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--unix") == 0 && i + 1 < argc) {
            path = argv[++i];
        } else if (strcmp(argv[i], "--stall") == 0 && i + 2 < argc) {
            s.stall_at = strtol(argv[++i], NULL, 10);
            s.stall_ms = strtol(argv[++i], NULL, 10);
        }
    }
    s.epoll = epoll_create1(0);
    s.listener = path ? listen_unix(path) : listen_tcp();
    fflush(stdout);
    watch(&s, s.listener);
    for (;;) {
        int count = epoll_wait(s.epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd != s.listener) {
                read_client(&s, events[i].data.fd);
                continue;
            }
            int fd = accept(s.listener, NULL, NULL);
            if (fd >= DESCRIPTORS_MAX)
                close(fd);
            else if (fd >= 0)
                watch(&s, fd);
        }
    }
}
