#include "control/control_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/durable.h"

enum { WAIT_MS = 60000, LOOK_US = 200, LOG_MAX = 64 << 10 };

int start_control(struct error *e, struct fixture *f)
{
    const struct control_options options = {.directory = f->directory,
                                            .api_socket = f->api_socket,
                                            .node_socket = f->node_socket,
                                            .config = &f->config,
                                            .log = &f->log};
    int r = control_new(e, f->base, &options, &f->control);
    if (r < 0)
        return r;
    f->first = http_client_new(f->api_socket);
    f->second = http_client_new(f->api_socket);
    f->third = http_client_new(f->api_socket);
    return 0;
}

static void must_start(struct fixture *f)
{
    struct error e = {0};
    if (start_control(&e, f) < 0)
        fail_msg("%s: %s", e.field, e.text);
}

void stop_control(struct fixture *f)
{
    http_client_free(f->first);
    http_client_free(f->second);
    http_client_free(f->third);
    control_free(f->control);
}

void restart_control(struct fixture *f)
{
    stop_control(f);
    must_start(f);
}

int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->directory, sizeof f->directory, "/tmp/gmr.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->api_socket, sizeof f->api_socket, "%s/api.sock", f->directory);
    snprintf(f->node_socket, sizeof f->node_socket, "%s/node.sock", f->directory);
    arena_init(&f->arena, 1 << 20);
    assert_int_equal(config_default(&f->arena, &f->config), 0);
    f->config.allow_root = true;
    log_init(&f->log, memfd_create("log", MFD_CLOEXEC), LOG_INFO, false);
    f->base = event_base_new();
    must_start(f);
    *state = f;
    return 0;
}

int close_fixture(void **state)
{
    struct fixture *f = *state;
    stop_control(f);
    event_base_free(f->base);
    close(f->log.fd);
    arena_done(&f->arena);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->directory), 0);
    free(f);
    return 0;
}

static void send_request(struct http_client *client, const char *method, const char *path,
                         const char *body)
{
    const struct http_call call = {.method = method,
                                   .target = path,
                                   .content_type = body ? "application/json" : NULL,
                                   .body = body,
                                   .body_length = body ? strlen(body) : 0,
                                   .timeout_ms = WAIT_MS};
    assert_int_equal(http_client_send(NULL, client, &call), 0);
}

void get(struct http_client *client, const char *path)
{
    send_request(client, "GET", path, NULL);
}

void post(struct http_client *client, const char *path, const char *body)
{
    send_request(client, "POST", path, body);
}

struct posting {
    struct http_client *client;
    const char *path, *body;
    atomic_bool is_sent;
};

static void *post_apart(void *arg)
{
    struct posting *p = arg;
    post(p->client, p->path, p->body);
    p->is_sent = true;
    return NULL;
}

void post_large(struct fixture *f, struct http_client *client, const char *path, const char *body)
{
    struct posting p = {.client = client, .path = path, .body = body};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_apart, &p), 0);
    while (!p.is_sent)
        event_base_loop(f->base, EVLOOP_NONBLOCK);
    pthread_join(thread, NULL);
}

void expect(struct fixture *f, struct http_client *client, int status, const char *text)
{
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    size_t length;
    bool done = false;
    while (http_client_receive(NULL, client, 0, &done) == 0 && !done) {
        assert_true(clock_boot_ms() < end_ms);
        event_base_loop(f->base, EVLOOP_NONBLOCK); /* the client may have more to read */
        usleep(LOOK_US);
    }
    assert_true(done);
    const char *body = http_client_body(client, &length);
    if (http_client_status(client) != status || !strstr(body, text))
        fail_msg("%d instead of %d with '%s': %.300s", http_client_status(client), status, text,
                 body);
}

bool log_says(const struct fixture *f, const char *text)
{
    char *log = calloc(1, LOG_MAX);
    assert_non_null(log);
    assert_true(pread(f->log.fd, log, LOG_MAX - 1, 0) >= 0);
    bool found = strstr(log, text) != NULL;
    free(log);
    return found;
}
