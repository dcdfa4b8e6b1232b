/* Rounds that are given up, and commits that are under way meanwhile. */
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/durable.h"
#include "control/control_internal.h"
#include "wire/http_client.h"

enum { WAIT_MS = 60000, LOG_MAX = 64 << 10 };

#define SPEC(name)                                                                                 \
    "{\"name\":\"" name "\",\"directory\":\"/\",\"devices\":0,\"command\":[\"true\"]}"

/* ---- a store whose commits take as long as the test likes, and whose batches fail ---- */

int __real_store_commit(struct error *e, struct store *s, const struct store_batch *b);
int __wrap_store_commit(struct error *e, struct store *s, const struct store_batch *b);
int __real_store_batch_event(struct store_batch *b, const struct store_event *event);
int __wrap_store_batch_event(struct store_batch *b, const struct store_event *event);

static pthread_mutex_t commits = PTHREAD_MUTEX_INITIALIZER; /* locked: none begins */
static bool commits_are_held, booking_fails;

static void hold_commits(bool hold)
{
    if (hold && !commits_are_held)
        pthread_mutex_lock(&commits);
    else if (!hold && commits_are_held)
        pthread_mutex_unlock(&commits);
    commits_are_held = hold;
}

int __wrap_store_commit(struct error *e, struct store *s, const struct store_batch *b)
{
    pthread_mutex_lock(&commits);
    int r = __real_store_commit(e, s, b);
    pthread_mutex_unlock(&commits);
    return r;
}

int __wrap_store_batch_event(struct store_batch *b, const struct store_event *event)
{
    return booking_fails ? -ERR_NO_MEMORY : __real_store_batch_event(b, event);
}

/* ---- control, stepped by the test ---- */

struct fixture {
    char directory[32], api_socket[64], node_socket[64];
    struct arena arena;
    struct config config;
    struct log log;
    struct event_base *base;
    struct control *control;
    struct http_client *first, *second, *third;
};

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct error e = {0};
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
    const struct control_options options = {.directory = f->directory,
                                            .api_socket = f->api_socket,
                                            .node_socket = f->node_socket,
                                            .config = &f->config,
                                            .log = &f->log};
    if (control_new(&e, f->base, &options, &f->control) < 0)
        fail_msg("%s", e.text);
    f->first = http_client_new(f->api_socket);
    f->second = http_client_new(f->api_socket);
    f->third = http_client_new(f->api_socket);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    hold_commits(false);
    booking_fails = false;
    http_client_free(f->first);
    http_client_free(f->second);
    http_client_free(f->third);
    control_free(f->control);
    event_base_free(f->base);
    close(f->log.fd);
    arena_done(&f->arena);
    assert_int_equal(durable_remove_tree(NULL, AT_FDCWD, f->directory), 0);
    free(f);
    return 0;
}

static void post(struct http_client *client, const char *path, const char *body)
{
    const struct http_call call = {.method = "POST",
                                   .target = path,
                                   .content_type = "application/json",
                                   .body = body,
                                   .body_length = strlen(body),
                                   .timeout_ms = WAIT_MS};
    assert_int_equal(http_client_send(NULL, client, &call), 0);
}

static void expect(struct fixture *f, struct http_client *client, int status, const char *text)
{
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    size_t length;
    bool done = false;
    while (http_client_receive(NULL, client, 0, &done) == 0 && !done) {
        assert_true(clock_boot_ms() < end_ms);
        event_base_loop(f->base, EVLOOP_ONCE); /* control's tick ends it, if nothing else does */
    }
    assert_true(done);
    const char *body = http_client_body(client, &length);
    if (http_client_status(client) != status || !strstr(body, text))
        fail_msg("%d instead of %d with '%s': %.300s", http_client_status(client), status, text,
                 body);
}

static bool log_says(const struct fixture *f, const char *text)
{
    static char log[LOG_MAX];
    ssize_t length = pread(f->log.fd, log, sizeof log - 1, 0);
    assert_true(length >= 0);
    log[length] = '\0';
    return strstr(log, text) != NULL;
}

/* ---- tests ---- */

static void a_commit_under_way_outlives_a_round_that_is_given_up(void **state)
{
    struct fixture *f = *state;
    hold_commits(true);
    post(f->first, "/v1/workloads", SPEC("kept"));
    while (!committer_busy(f->control->committer))
        event_base_loop(f->base, EVLOOP_ONCE);

    post(f->second, "/v1/workloads", SPEC("dropped"));
    while (f->control->filling.requests == 0)
        event_base_loop(f->base, EVLOOP_ONCE);
    booking_fails = true;
    post(f->third, "/v1/workloads", SPEC("failing"));
    expect(f, f->third, 503, "");
    expect(f, f->second, 503, "out of memory");
    booking_fails = false;
    post(f->second, "/v1/workloads", SPEC("refused"));
    expect(f, f->second, 503, "");
    assert_true(committer_busy(f->control->committer));
    assert_true(log_says(f, "given up why=\"out of memory\" requests=1"));
    assert_false(log_says(f, "submitted workload=1")); /* it may fail still */
    hold_commits(false);

    expect(f, f->first, 201, "\"id\":1,\"name\":\"kept\"");
    assert_int_equal(f->control->rebuilds, 1);
    assert_true(log_says(f, "submitted workload=1 attempt=0 node= text=\"kept\""));
    assert_false(log_says(f, "dropped"));
    post(f->second, "/v1/workloads", SPEC("next"));
    expect(f, f->second, 201, "\"id\":2,\"name\":\"next\"");
    /* The cluster knows it: else this were a workload that nobody can start or end. */
    post(f->first, "/v1/workloads/1/cancel", "");
    expect(f, f->first, 202, "\"state\":\"cancelled\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_commit_under_way_outlives_a_round_that_is_given_up,
                                        open_fixture, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
