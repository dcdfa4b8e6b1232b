/* The server over TLS: a loop in a thread, and clients like those of commands. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "endpoint/http_internal.h"
#include "endpoint/loop_fixture.h"
#include "tls/session.h"
#include "tls/tls_fixture.h"
#include "wire/address.h"
#include "wire/http/http_client.h"

enum { HOUR_MS = 3600000, WAIT_MS = 30000, CONNECTIONS_MAX = 8, LARGE_BYTES = 3 << 20 };

struct fixture {
    struct tls_party ca, server_party, node;
    struct tls_context *serving, *renewed, *client;
    struct log log;
    struct event_base *base;
    struct http_server *server;
    struct loop_thread loop;
    struct address address;
    struct http_stream *watch;
    atomic_int closed, handled, nodes;
    char node_name[CERTIFICATE_NAME_MAX];
};

/* ---- the server ---- */

static void on_echo(void *context, struct http_request *r)
{
    struct fixture *f = context;
    size_t length;
    const char *body = http_request_body(r, &length);
    atomic_fetch_add(&f->handled, 1);
    http_answer_text(r, 200, "text/plain", body, length);
}

static void on_large(void *context, struct http_request *r)
{
    (void)context;
    char *body = malloc(LARGE_BYTES);
    assert_non_null(body);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        body[i] = (char)('a' + i % 23);
    http_answer_text(r, 200, "text/plain", body, LARGE_BYTES);
    free(body);
}

static void on_closed(void *arg)
{
    struct fixture *f = arg;
    f->watch = NULL;
    atomic_fetch_add(&f->closed, 1);
}

static void on_watch(void *context, struct http_request *r)
{
    struct fixture *f = context;
    f->watch = http_stream_begin(r, "text/event-stream", on_closed, f);
    assert_non_null(f->watch);
    assert_true(http_stream_event(f->watch, 1, "began", "{}"));
}

static void on_end_watch(void *context, struct http_request *r)
{
    struct fixture *f = context;
    http_server_end_token(f->server, 7);
    http_answer_json(r, 200, "{}", 2);
}

static void on_renew(void *context, struct http_request *r)
{
    struct fixture *f = context;
    http_server_replace_tls(f->server, f->renewed);
    http_answer_json(r, 200, "{}", 2);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/echo", on_echo, HTTP_USER},
    {HTTP_GET, "/large", on_large, HTTP_ANYBODY},
    {HTTP_GET, "/watch", on_watch, HTTP_VIEWER},
    {HTTP_POST, "/end-watch", on_end_watch, HTTP_ANYBODY},
    {HTTP_POST, "/renew", on_renew, HTTP_ANYBODY},
    {HTTP_GET, NULL, NULL, HTTP_ANYBODY},
};

/* The token is the role's name. */
static int authorize(struct error *e, void *context, const struct http_request *r,
                     enum http_role least, struct http_peer *peer)
{
    (void)context;
    const char *token = http_request_header(r, "Authorization");
    peer->role = str_equal(token, "Bearer user")     ? HTTP_USER
                 : str_equal(token, "Bearer viewer") ? HTTP_VIEWER
                                                     : HTTP_ANYBODY;
    peer->token = token ? 7 : 0;
    if (peer->role >= least)
        return 0;
    if (peer->kind == HTTP_PEER_NODE)
        return error_set(e, ERR_DENIED, "not for node %s", peer->account);
    return error_set(e, token ? ERR_DENIED : ERR_UNAUTHENTICATED, "no");
}

static void echo_line(struct bufferevent *stream, void *arg)
{
    (void)arg;
    bufferevent_write_buffer(stream, bufferevent_get_input(stream));
}

static void end_stream(struct bufferevent *stream, short what, void *arg)
{
    (void)what;
    struct fixture *f = arg;
    atomic_fetch_sub(&f->nodes, 1);
    bufferevent_free(stream);
}

static void on_node(void *context, struct bufferevent *stream, const struct certificate_facts *peer)
{
    struct fixture *f = context;
    str_copy(f->node_name, sizeof f->node_name, peer->name);
    atomic_fetch_add(&f->nodes, 1);
    bufferevent_setcb(stream, echo_line, NULL, end_stream, f);
    bufferevent_enable(stream, EV_READ | EV_WRITE);
}

static int set_up(void **state)
{
    static const struct http_timeouts timeouts = {
        .request_ms = WAIT_MS, .idle_ms = WAIT_MS, .answer_ms = WAIT_MS, .handshake_ms = 1000};
    struct fixture *f = calloc(1, sizeof *f);
    struct error e = {0};
    uint16_t port = 0;
    tls_fixture_ca(&f->ca);
    tls_fixture_issue(&f->ca, "control", CERTIFICATE_SERVER, HOUR_MS, &f->server_party);
    tls_fixture_issue(&f->ca, "box", CERTIFICATE_NODE, HOUR_MS, &f->node);
    f->serving = tls_fixture_server(&f->ca, &f->server_party);
    f->client = tls_fixture_client(&f->ca, NULL, TLS_HTTP);
    log_init(&f->log, STDERR_FILENO, LOG_ERROR, false);
    f->base = event_base_new();
    assert_int_equal(http_server_new(&e, f->base, &f->log, routes, f, CONNECTIONS_MAX, &f->server),
                     0);
    http_server_set_timeouts(f->server, &timeouts);
    http_server_set_authorize(f->server, authorize);
    if (http_server_listen_tls(&e, f->server, "127.0.0.1", "0", f->serving, on_node, &port) < 0)
        fail_msg("%s", e.text);
    str_copy(f->address.host, sizeof f->address.host, "127.0.0.1");
    snprintf(f->address.port, sizeof f->address.port, "%u", port);
    loop_thread_start(&f->loop, f->base);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    loop_thread_end(&f->loop);
    http_server_free(f->server);
    event_base_free(f->base);
    tls_context_free(f->serving);
    tls_context_free(f->renewed);
    tls_context_free(f->client);
    tls_fixture_done(&f->ca);
    tls_fixture_done(&f->server_party);
    tls_fixture_done(&f->node);
    free(f);
    return 0;
}

/* ---- clients ---- */

static int call(struct http_client *c, const char *method, const char *target, const void *body,
                size_t length)
{
    struct error e = {0};
    struct http_call call = {.method = method,
                             .target = target,
                             .body = body,
                             .body_length = length,
                             .timeout_ms = WAIT_MS};
    int r = http_client_call(&e, c, &call);
    if (r < 0)
        fail_msg("%s", e.text);
    return http_client_status(c);
}

static int open_plain(const struct fixture *f)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)strtoul(f->address.port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void await(atomic_int *value, int wanted)
{
    int64_t give_up = clock_boot_ms() + WAIT_MS;
    while (atomic_load(value) != wanted && clock_boot_ms() < give_up)
        usleep(1000);
    assert_int_equal(atomic_load(value), wanted);
}

static void tls_connection_carries_large_bodies(void **state)
{
    struct fixture *f = *state;
    struct http_client *c = http_client_new_tls(&f->address, f->client, "user");
    for (int i = 0; i < 3; i++) {
        size_t length;
        assert_int_equal(call(c, "POST", "/echo", "hello", 5), 200);
        assert_string_equal(http_client_body(c, NULL), "hello");
        assert_int_equal(call(c, "GET", "/large", NULL, 0), 200);
        const char *body = http_client_body(c, &length);
        assert_int_equal(length, LARGE_BYTES);
        for (size_t k = 0; k < length; k += 4099)
            assert_int_equal(body[k], 'a' + (int)(k % 23));
    }
    char *large = malloc(LARGE_BYTES);
    memset(large, 'z', LARGE_BYTES);
    size_t length;
    assert_int_equal(call(c, "POST", "/echo", large, LARGE_BYTES), 200);
    assert_memory_equal(http_client_body(c, &length), large, LARGE_BYTES);
    assert_int_equal(length, LARGE_BYTES);
    free(large);
    http_client_free(c);
}

static void request_without_role_never_reaches_handler(void **state)
{
    struct fixture *f = *state;
    struct http_client *stranger = http_client_new_tls(&f->address, f->client, NULL);
    struct http_client *viewer = http_client_new_tls(&f->address, f->client, "viewer");
    assert_int_equal(call(stranger, "POST", "/echo", "x", 1), 401);
    assert_non_null(strstr(http_client_body(stranger, NULL), "urn:gpumux:problem:unauthenticated"));
    assert_int_equal(call(viewer, "POST", "/echo", "x", 1), 403);
    assert_int_equal(atomic_load(&f->handled), 0);
    http_client_free(stranger);
    http_client_free(viewer);

    struct tls_context *as_node = tls_fixture_client(&f->ca, &f->node, TLS_HTTP);
    struct http_client *node = http_client_new_tls(&f->address, as_node, NULL);
    assert_int_equal(call(node, "POST", "/echo", "x", 1), 403);
    assert_non_null(strstr(http_client_body(node, NULL), "not for node box"));
    http_client_free(node);
    tls_context_free(as_node);
}

static void stream_is_aborted_when_token_ends(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    bool done = false;
    struct http_client *c = http_client_new_tls(&f->address, f->client, "viewer");
    struct http_client *other = http_client_new_tls(&f->address, f->client, NULL);
    struct http_call watch = {.method = "GET", .target = "/watch", .timeout_ms = WAIT_MS};
    assert_int_equal(http_client_send(&e, c, &watch), 0);
    while (http_client_status(c) == 0)
        assert_int_equal(http_client_receive(&e, c, WAIT_MS, &done), 0);
    assert_false(done);
    assert_int_equal(call(other, "POST", "/end-watch", "", 0), 200);
    int r = 0;
    while (r == 0 && !done)
        r = http_client_receive(&e, c, WAIT_MS, &done);
    assert_true(r < 0); /* aborted, so that the response is incomplete */
    await(&f->closed, 1);
    http_client_free(c);
    http_client_free(other);
}

static void node_connection_is_handed_over(void **state)
{
    struct fixture *f = *state;
    struct tls_context *context = tls_fixture_client(&f->ca, &f->node, TLS_NODE);
    struct error e = {0};
    struct tls_session *s;
    enum tls_want want = TLS_WANT_WRITE;
    int fd = open_plain(f); /* blocking, so that no call ever wants */
    assert_int_equal(tls_session_new(&e, context, fd, "127.0.0.1", &s), 0);
    assert_int_equal(tls_session_handshake(&e, s, &want), 0);
    size_t bytes = 0;
    char text[8];
    assert_int_equal(tls_session_write(&e, s, "beat\n", 5, &bytes, &want), 0);
    assert_int_equal(tls_session_read(&e, s, text, sizeof text, &bytes, &want), 0);
    assert_int_equal(bytes, 5);
    await(&f->nodes, 1);
    assert_string_equal(f->node_name, "box");
    tls_session_free(s);
    close(fd);
    await(&f->nodes, 0);
    tls_context_free(context);

    /* A client without certificate gets the refusal with its first read. */
    context = tls_fixture_client(&f->ca, NULL, TLS_NODE);
    fd = open_plain(f);
    assert_int_equal(tls_session_new(&e, context, fd, "127.0.0.1", &s), 0);
    assert_int_equal(tls_session_handshake(&e, s, &want), 0);
    int r = tls_session_read(&e, s, text, sizeof text, &bytes, &want);
    assert_true(r < 0 || bytes == 0);
    assert_int_equal(atomic_load(&f->nodes), 0);
    tls_session_free(s);
    close(fd);
    tls_context_free(context);
}

static void connection_without_tls_is_closed(void **state)
{
    struct fixture *f = *state;
    char text[64];
    int plain = open_plain(f), silent = open_plain(f);
    static const char request[] = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_true(write(plain, request, sizeof request - 1) > 0);
    ssize_t n, got = 0;
    while ((n = read(plain, text, sizeof text)) > 0)
        got += n;
    assert_true(got < 16);                             /* at most a TLS alert */
    assert_true(read(silent, text, sizeof text) <= 0); /* after handshake_ms */
    close(plain);
    close(silent);
    struct http_client *c = http_client_new_tls(&f->address, f->client, "user");
    assert_int_equal(call(c, "POST", "/echo", "x", 1), 200);
    http_client_free(c);
}

static void tls_connections_beyond_maximum_are_refused(void **state)
{
    struct fixture *f = *state;
    enum { ROOM = CONNECTIONS_MAX - CONNECTIONS_MAX / HTTP_CONNECTIONS_PART };
    struct http_client *clients[ROOM + 1];
    for (int i = 0; i <= ROOM; i++) {
        clients[i] = http_client_new_tls(&f->address, f->client, "user");
        assert_int_equal(call(clients[i], "POST", "/echo", "x", 1), i < ROOM ? 200 : 503);
    }
    for (int i = 0; i <= ROOM; i++)
        http_client_free(clients[i]);
}

static void renewed_certificate_serves_new_connections_only(void **state)
{
    struct fixture *f = *state;
    struct tls_party other_ca, other;
    struct error e = {0};
    tls_fixture_ca(&other_ca);
    tls_fixture_issue(&other_ca, "control", CERTIFICATE_SERVER, HOUR_MS, &other);
    f->renewed = tls_fixture_server(&other_ca, &other);
    struct http_client *old = http_client_new_tls(&f->address, f->client, "user");
    struct http_client *new = http_client_new_tls(&f->address, f->client, "user");
    assert_int_equal(call(old, "POST", "/renew", "", 0), 200);
    assert_int_equal(call(old, "POST", "/echo", "x", 1), 200);
    struct http_call get = {.method = "GET", .target = "/large", .timeout_ms = WAIT_MS};
    assert_int_equal(http_client_call(&e, new, &get), -ERR_DENIED);
    http_client_free(old);
    http_client_free(new);
    tls_fixture_done(&other_ca);
    tls_fixture_done(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tls_connection_carries_large_bodies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(request_without_role_never_reaches_handler, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(stream_is_aborted_when_token_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(node_connection_is_handed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(connection_without_tls_is_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tls_connections_beyond_maximum_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(renewed_certificate_serves_new_connections_only, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
