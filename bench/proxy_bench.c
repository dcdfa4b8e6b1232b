/*
 * The cost of the measuring proxy: a small server, reached directly and through `gpumux proxy`, by
 * turns. Requests are due at even intervals (open loop), on connections that are kept alive; the
 * latency of a request counts from the time at which it was due.
 *
 *     proxy_bench GPUMUX [RATE] [TURNS] [SECONDS]
 *
 * Prints one line for each turn, and then the CPU time of the proxy for each request (user and
 * system, from wait4) and the medians over the turns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "proxy/proxy.h"

enum { CONNECTIONS = 32, EVENTS = 64, BYTES = 4096, TURNS_MAX = 32, START_US = 300000 };

static const char request[] = "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost:8000\r\n"
                              "User-Agent: bench\r\nAccept: */*\r\nContent-Length: 4\r\n\r\nabcd";
static const char answer[] = "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\n"
                             "Content-Length: 12\r\n\r\nhello world\n";

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int listen_any(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 256) < 0 || getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        die("listen");
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        die("epoll");
}

/* Every request arrives in one piece, because it is small. */
static _Noreturn void serve(int listen_fd)
{
    int epoll_fd = epoll_create1(0);
    struct epoll_event events[EVENTS];
    char bytes[BYTES];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    watch(epoll_fd, listen_fd);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listen_fd) {
                int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
                if (client >= 0)
                    watch(epoll_fd, client);
            } else if (recv(fd, bytes, sizeof bytes, 0) <= 0 ||
                       send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0) {
                close(fd);
            }
        }
    }
}

static pid_t start_proxy(const char *gpumux, int listen_fd, int backend, int *ret_channel)
{
    int pair[2];
    char option[32];
    snprintf(option, sizeof option, "backend=%d", backend);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        die("socketpair");
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int moved[2] = {fcntl(listen_fd, F_DUPFD, 16), fcntl(pair[1], F_DUPFD, 16)};
        dup2(moved[0], PROXY_LISTEN_FD);
        dup2(moved[1], PROXY_CHANNEL_FD);
        execl(gpumux, "gpumux", "proxy", "1.1", option, (char *)NULL);
        die(gpumux);
    }
    close(pair[1]);
    *ret_channel = pair[0];
    return pid;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

struct load {
    int epoll_fd, fds[CONNECTIONS], idle[CONNECTIONS], idle_count;
    int64_t due_us[1024]; /* by descriptor */
    double *latencies_us;
    size_t sent, done, wanted;
};

static void open_load(struct load *l, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    l->epoll_fd = epoll_create1(0);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || fd >= 1024 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
            die("connect");
        watch(l->epoll_fd, fd);
        l->fds[i] = l->idle[l->idle_count++] = fd;
    }
}

/* Sleeps, because a client that spins would keep one of two cores from server and proxy. */
static void take_answers(struct load *l, int64_t timeout_us)
{
    struct epoll_event events[EVENTS];
    char bytes[BYTES];
    const struct timespec timeout = {.tv_nsec = (timeout_us > 0 ? timeout_us : 0) * 1000};
    int n = epoll_pwait2(l->epoll_fd, events, EVENTS, &timeout, NULL);
    for (int i = 0; i < n; i++) {
        int fd = events[i].data.fd;
        if (recv(fd, bytes, sizeof bytes, 0) != (ssize_t)sizeof answer - 1)
            die("an answer is not whole");
        l->latencies_us[l->done++] = (double)(clock_boot_us() - l->due_us[fd]);
        l->idle[l->idle_count++] = fd;
    }
}

/* Sends the requests of one turn. Returns their p99. */
static double run_turn(int port, double rate, double seconds, double *ret_p50)
{
    struct load l = {.wanted = (size_t)(rate * seconds)};
    l.latencies_us = calloc(l.wanted, sizeof *l.latencies_us);
    open_load(&l, port);
    int64_t begin_us = clock_boot_us() + START_US;
    while (l.done < l.wanted) {
        int64_t due_us = begin_us + (int64_t)((double)l.sent * 1e6 / rate),
                now_us = clock_boot_us();
        if (l.sent < l.wanted && now_us >= due_us && l.idle_count > 0) {
            int fd = l.idle[--l.idle_count];
            l.due_us[fd] = due_us;
            l.sent++;
            if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
                die("send");
            continue;
        }
        int64_t wait_us = l.sent < l.wanted && l.idle_count > 0 ? due_us - now_us : 1000;
        take_answers(&l, wait_us < START_US ? wait_us : START_US);
    }
    for (int i = 0; i < CONNECTIONS; i++)
        close(l.fds[i]);
    close(l.epoll_fd);
    qsort(l.latencies_us, l.done, sizeof *l.latencies_us, compare);
    double p99 = l.latencies_us[l.done * 99 / 100];
    *ret_p50 = l.latencies_us[l.done / 2];
    free(l.latencies_us);
    return p99;
}

int main(int argc, char **argv)
{
    double rate = argc > 2 ? strtod(argv[2], NULL) : 5000;
    long turns = argc > 3 ? strtol(argv[3], NULL, 10) : 5;
    double seconds = argc > 4 ? strtod(argv[4], NULL) : 3;
    int ports[2], channel, server_fd = listen_any(&ports[0]), proxy_fd = listen_any(&ports[1]);
    double p50[2][TURNS_MAX], p99[2][TURNS_MAX];
    if (argc < 2 || turns < 1 || turns > TURNS_MAX) {
        fprintf(stderr, "usage: proxy_bench GPUMUX [RATE] [TURNS] [SECONDS]\n");
        return 2;
    }
    pid_t server = fork();
    if (server == 0)
        serve(server_fd);
    pid_t proxy = start_proxy(argv[1], proxy_fd, ports[0], &channel);
    for (long i = 0; i < turns; i++) {
        for (int way = 0; way < 2; way++)
            p99[way][i] = run_turn(ports[way], rate, seconds, &p50[way][i]);
        printf("turn %ld: direct p50 %.0f p99 %.0f us, proxy p50 %.0f p99 %.0f us\n", i + 1,
               p50[0][i], p99[0][i], p50[1][i], p99[1][i]);
    }
    struct rusage usage;
    kill(proxy, SIGTERM);
    if (wait4(proxy, NULL, 0, &usage) != proxy)
        die("the proxy");
    kill(server, SIGKILL);
    double cpu_us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    double direct = median(p99[0], (size_t)turns), through = median(p99[1], (size_t)turns);
    printf("requests/s %.0f\n", rate);
    printf("proxy cpu per request %.1f us\n", cpu_us / (rate * seconds * (double)turns));
    printf("median p50: direct %.0f us, proxy %.0f us\n", median(p50[0], (size_t)turns),
           median(p50[1], (size_t)turns));
    printf("median p99: direct %.0f us, proxy %.0f us, difference %.0f us\n", direct, through,
           through - direct);
    close(channel);
    return 0;
}
