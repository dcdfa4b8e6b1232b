/*
 * submit_bench SOCKET CONNECTIONS SECONDS DIRECTORY: rate of durable submits.
 *
 * Every connection is kept alive and has one outstanding submit. Prints name=value pairs: accepted
 * submits a second, commits (syncs) by the daemon's own counters, the time of a submit, and how
 * many times per second DIRECTORY's disk completes write and fdatasync of one page, measured before
 * and after.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/http/http_client.h"

enum { CONNECTIONS_MAX = 256, SAMPLES_MAX = 1 << 20, ANSWER_BYTES = 4096, SYNC_US = 1000000 };

struct connection {
    int fd;
    int64_t sent_us;
    size_t length;
    char answer[ANSWER_BYTES];
};

struct load {
    const char *request;
    size_t request_length;
    uint64_t accepted, refused;
    size_t sample_count;
    int32_t *samples_us;
};

static void die(const char *what)
{
    fprintf(stderr, "submit_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double sync_rate(const char *directory)
{
    char path[256], page[4096] = {1};
    snprintf(path, sizeof path, "%s/sync.XXXXXX", directory);
    int fd = mkstemp(path);
    if (fd < 0)
        die(path);
    int64_t start_us = clock_boot_us(), now_us;
    int count = 0;
    do {
        if (write(fd, page, sizeof page) != sizeof page || fdatasync(fd) < 0)
            die("fdatasync");
        count++;
        now_us = clock_boot_us();
    } while (now_us - start_us < SYNC_US);
    close(fd);
    unlink(path);
    return count * 1e6 / (double)(now_us - start_us);
}

/* Returns the value of a counter in /metrics. */
static double counter(const char *socket_path, const char *name)
{
    struct http_client *client = http_client_new(socket_path);
    struct http_call call = {.method = "GET", .target = "/metrics", .timeout_ms = 10000};
    struct error e = {0};
    if (!client || http_client_call(&e, client, &call) < 0) {
        fprintf(stderr, "submit_bench: /metrics: %s\n", e.text);
        exit(1);
    }
    size_t length = 0, name_length = strlen(name);
    const char *body = http_client_body(client, &length);
    double value = -1;
    for (const char *line = body; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, name_length) == 0 && line[name_length] == ' ')
            value = strtod(line + name_length, NULL);
    }
    http_client_free(client);
    return value;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static void send_request(const struct load *load, struct connection *c)
{
    c->sent_us = clock_boot_us();
    c->length = 0;
    if (write(c->fd, load->request, load->request_length) != (ssize_t)load->request_length)
        die("write");
}

/* Returns whether the response is complete. */
static bool answered(const struct connection *c)
{
    const char *body = memmem(c->answer, c->length, "\r\n\r\n", 4);
    const char *length = body ? strcasestr(c->answer, "content-length:") : NULL;
    if (!length)
        return false;
    size_t want = strtoul(length + strlen("content-length:"), NULL, 10);
    return c->length >= (size_t)(body + 4 - c->answer) + want;
}

static bool receive(struct load *load, struct connection *c)
{
    ssize_t got = read(c->fd, c->answer + c->length, sizeof c->answer - 1 - c->length);
    if (got <= 0)
        die("the connection ended");
    c->length += (size_t)got;
    c->answer[c->length] = '\0';
    if (!answered(c))
        return false;
    if (strncmp(c->answer, "HTTP/1.1 201", 12) == 0)
        load->accepted++;
    else if (load->refused++ == 0)
        fprintf(stderr, "submit_bench: answered with %s\n", c->answer);
    if (load->sample_count < SAMPLES_MAX)
        load->samples_us[load->sample_count++] = (int32_t)(clock_boot_us() - c->sent_us);
    return true;
}

/* Sends until end_us, then receives the remaining responses; returns the time of the last one. */
static int64_t run(struct load *load, struct connection *connections, size_t count, int64_t end_us)
{
    struct pollfd polled[CONNECTIONS_MAX];
    for (size_t i = 0; i < count; i++) {
        polled[i] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
        send_request(load, &connections[i]);
    }
    for (size_t open = count; open > 0;) {
        if (poll(polled, count, -1) < 0)
            die("poll");
        for (size_t i = 0; i < count; i++) {
            if (polled[i].revents == 0 || !receive(load, &connections[i]))
                continue;
            if (clock_boot_us() < end_us) {
                send_request(load, &connections[i]);
            } else {
                polled[i].fd = -1;
                open--;
            }
        }
    }
    return clock_boot_us();
}

static int compare(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: submit_bench SOCKET CONNECTIONS SECONDS DIRECTORY\n");
        return 2;
    }
    static struct connection connections[CONNECTIONS_MAX];
    size_t count = strtoul(argv[2], NULL, 10);
    double seconds = strtod(argv[3], NULL);
    static const char body[] = "{\"name\":\"b\",\"command\":[\"true\"],\"directory\":\"/\"}";
    char request[512];
    int length = snprintf(request, sizeof request,
                          "POST /v1/workloads HTTP/1.1\r\nHost: gpumux\r\nContent-Type: "
                          "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                          sizeof body - 1, body);
    struct load load = {.request = request,
                        .request_length = (size_t)length,
                        .samples_us = calloc(SAMPLES_MAX, sizeof(int32_t))};
    if (count < 1 || count > CONNECTIONS_MAX || !load.samples_us)
        return 2;
    double sync_before = sync_rate(argv[4]);
    for (size_t i = 0; i < count; i++)
        if ((connections[i].fd = connect_to(argv[1])) < 0)
            die(argv[1]);
    double commits = counter(argv[1], "gpumux_store_commits_total");
    int64_t start_us = clock_boot_us();
    int64_t end_us = run(&load, connections, count, start_us + (int64_t)(seconds * 1e6));
    commits = counter(argv[1], "gpumux_store_commits_total") - commits;
    double sync_after = sync_rate(argv[4]);
    qsort(load.samples_us, load.sample_count, sizeof(int32_t), compare);
    printf("connections=%zu accepted=%llu refused=%llu rate=%.0f commits=%.0f per_sync=%.2f "
           "sync_rate=%.0f p50_us=%d p99_us=%d\n",
           count, (unsigned long long)load.accepted, (unsigned long long)load.refused,
           (double)load.accepted * 1e6 / (double)(end_us - start_us), commits,
           commits > 0 ? (double)load.accepted / commits : 0, (sync_before + sync_after) / 2,
           load.samples_us[load.sample_count / 2], load.samples_us[load.sample_count * 99 / 100]);
    free(load.samples_us);
    return load.refused ? 1 : 0;
}
