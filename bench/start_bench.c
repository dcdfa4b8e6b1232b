/*
 * start_bench SOCKET COUNT DIRECTORY PROGRAM: time from a client's first byte to the child's first
 * instruction. Submits PROGRAM (first_instruction) COUNT times, each after the end of the one
 * before and over a new connection, like a client. Prints p50_us, p99_us, max_us.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "wire/http/http_client.h"

enum { COUNT_MAX = 100000, WAIT_MS = 30000, PAUSE_US = 20000 };

static int64_t boot_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the time in ns, or -1. */
static int64_t measure(const char *socket, const char *body, int fifo)
{
    struct http_client *client = http_client_new(socket);
    struct http_call call = {.method = "POST",
                             .target = "/v1/workloads",
                             .content_type = "application/json",
                             .body = body,
                             .body_length = strlen(body),
                             .timeout_ms = WAIT_MS};
    struct error e = {0};
    int64_t start_ns = boot_ns(), first_ns = -1;
    struct pollfd polled = {.fd = fifo, .events = POLLIN};
    if (!client || http_client_call(&e, client, &call) < 0 || http_client_status(client) != 201)
        fprintf(stderr, "start_bench: not accepted: %s\n", e.text);
    else if (poll(&polled, 1, WAIT_MS) != 1 || read(fifo, &first_ns, sizeof first_ns) < 8)
        fprintf(stderr, "start_bench: it did not start\n");
    http_client_free(client);
    return first_ns < 0 ? -1 : first_ns - start_ns;
}

int main(int argc, char **argv)
{
    long count = argc == 5 ? strtol(argv[2], NULL, 10) : 0;
    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "usage: start_bench SOCKET COUNT DIRECTORY PROGRAM\n");
        return 2;
    }
    char fifo_path[256], body[1024];
    snprintf(fifo_path, sizeof fifo_path, "%s/first", argv[3]);
    snprintf(body, sizeof body,
             "{\"name\": \"first\", \"command\": [\"%s\", \"%s\"], \"directory\": \"/\"}", argv[4],
             fifo_path);
    int64_t *took_ns = calloc((size_t)count, sizeof *took_ns);
    if (!took_ns || mkfifo(fifo_path, 0600) < 0)
        return 2;
    int fifo = open(fifo_path, O_RDWR | O_CLOEXEC);
    for (long i = 0; i < count; i++) {
        took_ns[i] = measure(argv[1], body, fifo);
        if (took_ns[i] < 0)
            return 1;
        usleep(PAUSE_US); /* until the end is stored, because the bar is for an idle machine */
    }
    qsort(took_ns, (size_t)count, sizeof *took_ns, compare);
    printf("count=%ld p50_us=%lld p99_us=%lld max_us=%lld\n", count,
           (long long)took_ns[count / 2] / 1000, (long long)took_ns[count * 99 / 100] / 1000,
           (long long)took_ns[count - 1] / 1000);
    close(fifo);
    unlink(fifo_path);
    free(took_ns);
    return 0;
}
