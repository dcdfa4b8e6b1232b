/*
 * http_bench SOCKET [CONNECTIONS SECONDS]: requests per second, and the server's CPU time for each,
 * over keep-alive connections with one outstanding request each.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <event2/event.h>

#include "base/clock.h"
#include "endpoint/http.h"

enum { CONNECTIONS_MAX = 1024, BODY_BYTES = 600 };

struct bench {
    struct event_base *base;
    _Atomic bool stop;
    double server_seconds;
};

static void on_submit(void *context, struct http_request *r)
{
    (void)context;
    static const char answer[] =
        "{\"workloads\":[{\"id\":1,\"name\":\"train\",\"state\":\"queued\"}],\"repeated\":false}";
    http_answer_json(r, 201, answer, sizeof answer - 1);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/v1/workloads/{ref}", on_submit, HTTP_ANYBODY},
    {HTTP_POST, "/v1/workloads", on_submit, HTTP_ANYBODY},
    {HTTP_GET, NULL, NULL, HTTP_ANYBODY},
};

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct bench *b = arg;
    if (atomic_load(&b->stop))
        event_base_loopbreak(b->base);
}

static void *serve(void *arg)
{
    struct bench *b = arg;
    struct event *tick = event_new(b->base, -1, EV_PERSIST, on_tick, b);
    struct timeval tv = {.tv_usec = 100000};
    event_add(tick, &tv);
    event_base_dispatch(b->base);
    event_free(tick);
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    b->server_seconds = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    return NULL;
}

static int open_client(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        perror(path);
        exit(1);
    }
    return fd;
}

static long drive(const char *path, size_t connections, double seconds)
{
    static struct pollfd fds[CONNECTIONS_MAX];
    char request[BODY_BYTES + 256], answer[4096];
    int length = snprintf(request, sizeof request,
                          "POST /v1/workloads HTTP/1.1\r\nHost: gpumux\r\n"
                          "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%0*d",
                          BODY_BYTES, BODY_BYTES, 0);
    for (size_t i = 0; i < connections; i++) {
        fds[i] = (struct pollfd){.fd = open_client(path), .events = POLLIN};
        if (send(fds[i].fd, request, (size_t)length, 0) != length)
            exit(1);
    }
    long done = 0;
    int64_t end_us = clock_boot_us() + (int64_t)(seconds * 1e6);
    while (clock_boot_us() < end_us && poll(fds, connections, 1000) > 0) {
        for (size_t i = 0; i < connections; i++) {
            if (!(fds[i].revents & POLLIN))
                continue;
            if (recv(fds[i].fd, answer, sizeof answer, 0) <= 0 ||
                strncmp(answer, "HTTP/1.1 201 ", 13) != 0 ||
                send(fds[i].fd, request, (size_t)length, 0) != length)
                exit(1);
            done++;
        }
    }
    for (size_t i = 0; i < connections; i++)
        close(fds[i].fd);
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: http_bench SOCKET [CONNECTIONS SECONDS]\n");
        return 2;
    }
    size_t connections = argc == 4 ? strtoul(argv[2], NULL, 10) : 64;
    double seconds = argc == 4 ? strtod(argv[3], NULL) : 3;
    if (connections < 1 || connections > CONNECTIONS_MAX)
        return 2;
    struct bench b = {.base = event_base_new()};
    struct http_server *server;
    struct error e = {0};
    if (http_server_new(&e, b.base, NULL, routes, NULL, CONNECTIONS_MAX, &server) < 0 ||
        http_server_listen_unix(&e, server, argv[1], 0600) < 0) {
        fprintf(stderr, "http_bench: %s\n", e.text);
        return 1;
    }
    pthread_t thread;
    pthread_create(&thread, NULL, serve, &b);
    long done = drive(argv[1], connections, seconds);
    atomic_store(&b.stop, true);
    pthread_join(thread, NULL);
    http_server_free(server);
    event_base_free(b.base);
    printf("%zu connections: %.0f requests/s, %.1f us of the server's processor each\n",
           connections, (double)done / seconds, b.server_seconds * 1e6 / (double)done);
    return 0;
}
