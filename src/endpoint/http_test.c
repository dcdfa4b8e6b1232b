/* A real server on a unix socket in a thread, and a client that writes bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <event2/event.h>
#include <cmocka.h>

#include "base/clock.h"
#include "endpoint/http_internal.h"
#include "endpoint/loop_fixture.h"

enum { CONNECTIONS_MAX = 8, WAIT_MS = 20000, RESPONSE_MAX = 16 << 20 };

/* ---- the server under test ---- */

struct fixture {
    char directory[32], path[64];
    struct event_base *base;
    struct http_server *server;
    struct http_request *kept[16];
    size_t kept_count;
    struct http_stream *watch;
    int closed; /* streams that the peer closed */
    struct loop_thread loop;
    struct log log;
};

static void answer_str(struct http_request *r, struct str *text)
{
    http_answer_text(r, 200, "text/plain", str_text(text), text->length);
    str_done(text);
}

static void on_hello(void *context, struct http_request *r)
{
    (void)context;
    struct str text;
    str_init(&text, 1000);
    str_printf(&text, "hello %s", http_request_part(r, "name"));
    assert_null(http_request_part(r, "nam"));
    answer_str(r, &text);
}

static void on_echo(void *context, struct http_request *r)
{
    (void)context;
    size_t length;
    const char *body = http_request_body(r, &length);
    http_answer_text(r, 201, "application/octet-stream", body, length);
}

static void on_query(void *context, struct http_request *r)
{
    (void)context;
    static const char *const known[] = {"a", "b", NULL};
    struct error e = {0};
    if (http_request_check_query(&e, r, known) < 0) {
        http_answer_error(r, &e);
        return;
    }
    struct str text;
    str_init(&text, 1000);
    str_printf(&text, "a=%s", http_request_query(r, "a") ? http_request_query(r, "a") : "-");
    answer_str(r, &text);
}

static void on_keep(void *context, struct http_request *r)
{
    struct fixture *f = context;
    f->kept[f->kept_count++] = r;
}

static void on_release(void *context, struct http_request *r)
{
    struct fixture *f = context;
    size_t count = f->kept_count;
    f->kept_count = 0;
    for (size_t i = 0; i < count; i++)
        http_answer_json(f->kept[i], 200, "{}", 2);
    struct str text;
    str_init(&text, 100);
    str_printf(&text, "%zu", count);
    answer_str(r, &text);
}

static void on_nothing(void *context, struct http_request *r)
{
    (void)context;
    http_answer_text(r, 204, "text/plain", "", 0);
}

static void on_closed(void *arg)
{
    struct fixture *f = arg;
    f->closed++;
    f->watch = NULL;
}

static void on_stream(void *context, struct http_request *r)
{
    struct http_stream *s = http_stream_begin(r, "text/event-stream", on_closed, context);
    assert_non_null(s);
    assert_true(http_stream_event(s, 7, "state", "{\"x\":1}"));
    assert_true(http_stream_write(s, "", 0));
    assert_true(http_stream_write(s, ": more\n", 7));
    http_stream_end(s);
}

/* Sends half of the response. */
static void on_half(void *context, struct http_request *r)
{
    struct http_stream *s = http_stream_begin(r, "text/plain", on_closed, context);
    assert_true(http_stream_write(s, "half", 4));
    http_stream_break(s);
}

/* Writes more than the bound to a client that does not read. */
static void on_flood(void *context, struct http_request *r)
{
    struct http_stream *s = http_stream_begin(r, "text/plain", on_closed, context);
    static const char block[4096];
    size_t written = 0;
    while (http_stream_write(s, block, sizeof block))
        written += sizeof block;
    assert_true(written >= HTTP_STREAM_PENDING_MAX / 2);
    assert_true(written < 8 * HTTP_STREAM_PENDING_MAX);
}

static void on_watch(void *context, struct http_request *r)
{
    struct fixture *f = context;
    f->watch = http_stream_begin(r, "text/plain", on_closed, f);
}

static void on_large(void *context, struct http_request *r)
{
    (void)context;
    enum { LARGE = 4 << 20 };
    char *text = malloc(LARGE);
    assert_non_null(text);
    memset(text, 'x', LARGE);
    http_answer_text(r, 200, "text/plain", text, LARGE);
    free(text);
}

static void on_count(void *context, struct http_request *r)
{
    struct fixture *f = context;
    struct http_counters c;
    http_server_count(f->server, &c);
    struct str text;
    str_init(&text, 1000);
    str_printf(&text, "open=%llu refused=%llu streams=%llu closed=%d kept=%zu 4xx=%llu uid=%u;",
               (unsigned long long)c.connections_open, (unsigned long long)c.connections_refused,
               (unsigned long long)c.streams_open, f->closed, f->kept_count,
               (unsigned long long)c.by_status[4], (unsigned)http_request_peer(r)->uid);
    answer_str(r, &text);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/hello/{name}", on_hello, HTTP_ANYBODY},
    {HTTP_POST, "/echo", on_echo, HTTP_ANYBODY},
    {HTTP_PUT, "/echo", on_nothing, HTTP_ANYBODY},
    {HTTP_GET, "/query", on_query, HTTP_ANYBODY},
    {HTTP_GET, "/keep", on_keep, HTTP_ANYBODY},
    {HTTP_GET, "/release", on_release, HTTP_ANYBODY},
    {HTTP_GET, "/stream", on_stream, HTTP_ANYBODY},
    {HTTP_GET, "/flood", on_flood, HTTP_ANYBODY},
    {HTTP_GET, "/watch", on_watch, HTTP_ANYBODY},
    {HTTP_GET, "/half", on_half, HTTP_ANYBODY},
    {HTTP_GET, "/large", on_large, HTTP_ANYBODY},
    {HTTP_GET, "/count", on_count, HTTP_ANYBODY},
    {HTTP_GET, NULL, NULL, HTTP_ANYBODY},
};

static struct fixture *fixture_start(const struct http_timeouts *timeouts)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct error e = {0};
    assert_non_null(f);
    snprintf(f->directory, sizeof f->directory, "/tmp/gpumux-http-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->path, sizeof f->path, "%s/api.sock", f->directory);
    log_init(&f->log, STDERR_FILENO, LOG_ERROR, false);
    f->base = event_base_new();
    assert_int_equal(http_server_new(&e, f->base, &f->log, routes, f, CONNECTIONS_MAX, &f->server),
                     0);
    if (timeouts)
        http_server_set_timeouts(f->server, timeouts);
    assert_int_equal(http_server_listen_unix(&e, f->server, f->path, 0600), 0);
    loop_thread_start(&f->loop, f->base);
    return f;
}

static void fixture_stop(struct fixture *f)
{
    loop_thread_end(&f->loop);
    http_server_free(f->server);
    for (size_t i = 0; i < f->kept_count; i++)
        http_answer_json(f->kept[i], 200, "{}", 2); /* only frees: the server is gone */
    event_base_free(f->base);
    assert_int_equal(access(f->path, F_OK), -1);
    assert_int_equal(rmdir(f->directory), 0);
    free(f);
}

/* ---- the client ---- */

struct client {
    int fd;
    char *data; /* received bytes that the test has not taken yet */
    size_t length;
};

struct response {
    int status;
    char head[4096];
    char *body;
    size_t length;
};

static struct client client_open(const struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof address.sun_path, f->path);
    struct client c = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                       .data = malloc(RESPONSE_MAX)};
    assert_non_null(c.data);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&address, sizeof address), 0);
    return c;
}

static void client_close(struct client *c)
{
    close(c->fd);
    free(c->data);
}

static void client_write(struct client *c, const void *bytes, size_t length)
{
    const char *p = bytes;
    while (length > 0) {
        ssize_t n = send(c->fd, p, length, MSG_NOSIGNAL);
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* refused while sending; the response has the reason */
        assert_true(n > 0);
        p += n;
        length -= (size_t)n;
    }
}

static void client_send(struct client *c, const char *text)
{
    client_write(c, text, strlen(text));
}

/* Reads more bytes. Returns false at the end. */
static bool client_read(struct client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    assert_true(c->length < RESPONSE_MAX);
    ssize_t n = recv(c->fd, c->data + c->length, RESPONSE_MAX - c->length, 0);
    if (n > 0)
        c->length += (size_t)n;
    return n > 0;
}

static bool at_end(struct client *c)
{
    return c->length == 0 && !client_read(c);
}

static void client_take(struct client *c, void *to, size_t bytes)
{
    while (c->length < bytes)
        assert_true(client_read(c));
    memcpy(to, c->data, bytes);
    c->length -= bytes;
    memmove(c->data, c->data + bytes, c->length);
}

static size_t client_find(struct client *c, const char *end)
{
    for (;;) {
        const char *found = memmem(c->data, c->length, end, strlen(end));
        if (found)
            return (size_t)(found - c->data) + strlen(end);
        assert_true(client_read(c));
    }
}

static void take_chunks(struct client *c, struct response *r)
{
    for (;;) {
        char line[32], *end;
        size_t length = client_find(c, "\r\n");
        assert_true(length < sizeof line);
        client_take(c, line, length);
        size_t chunk = strtoul(line, &end, 16);
        assert_true(end > line);
        client_take(c, r->body + r->length, chunk);
        r->length += chunk;
        client_take(c, line, 2);
        if (chunk == 0)
            return;
    }
}

static struct response client_receive(struct client *c)
{
    struct response r = {.body = calloc(1, RESPONSE_MAX)};
    assert_non_null(r.body);
    size_t head = client_find(c, "\r\n\r\n");
    assert_true(head < sizeof r.head);
    client_take(c, r.head, head);
    assert_int_equal(sscanf(r.head, "HTTP/1.1 %d", &r.status), 1);
    const char *length = strcasestr(r.head, "content-length: ");
    if (length) {
        r.length = strtoul(length + strlen("content-length: "), NULL, 10);
        client_take(c, r.body, r.length);
    } else if (strcasestr(r.head, "transfer-encoding: chunked")) {
        take_chunks(c, &r);
    }
    return r;
}

/* Checks a response and frees it. body: a part of the response's body. */
static void expect(struct client *c, int status, const char *body)
{
    struct response r = client_receive(c);
    if (r.status != status || !strstr(r.body, body))
        fail_msg("expected %d with \"%s\", got %s%s", status, body, r.head, r.body);
    if (status >= 400) {
        assert_non_null(strstr(r.head, "Content-Type: application/problem+json\r\n"));
        assert_int_equal(strncmp(r.body, "{\"type\":\"urn:gpumux:problem:", 28), 0);
    }
    free(r.body);
}

/* Requests /count until the response contains `text`. */
static void wait_for_count(struct fixture *f, const char *text)
{
    int64_t end_ms = clock_boot_ms() + WAIT_MS;
    bool found = false;
    while (!found) {
        struct client c = client_open(f);
        client_send(&c, "GET /count HTTP/1.1\r\nConnection: close\r\n\r\n");
        struct response r = client_receive(&c);
        found = strstr(r.body, text) != NULL;
        if (!found && clock_boot_ms() > end_ms)
            fail_msg("waited for \"%s\", still %s", text, r.body);
        free(r.body);
        client_close(&c);
    }
}

/* ---- tests ---- */

static void connection_kept_alive_serves_many_requests(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f);
    client_send(&c, "GET /hello/a%20b HTTP/1.1\r\nHost: x\r\n\r\n");
    expect(&c, 200, "hello a b");
    client_send(&c, "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde");
    expect(&c, 201, "abcde");
    client_send(&c, "PUT /echo HTTP/1.1\r\n\r\n");
    struct response r = client_receive(&c);
    assert_int_equal(r.status, 204);
    assert_null(strcasestr(r.head, "content-length"));
    assert_non_null(strstr(r.head, "Date: "));
    assert_non_null(strstr(r.head, "\r\nServer: gpumux/" GPUMUX_VERSION "\r\n"));
    free(r.body);
    client_send(&c, "GET /query?a=1%2B1+x HTTP/1.1\r\n\r\n");
    expect(&c, 200, "a=1+1 x");
    char uid[32];
    snprintf(uid, sizeof uid, "uid=%u;", (unsigned)getuid());
    client_send(&c, "GET /count HTTP/1.1\r\n\r\n");
    expect(&c, 200, uid);
    client_send(&c, "GET /hello/z HTTP/1.1\r\nConnection: close\r\n\r\n");
    expect(&c, 200, "hello z");
    assert_true(at_end(&c));
    client_close(&c);
    fixture_stop(f);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f), other = client_open(f);
    client_send(&c, "GET /hello/1 HTTP/1.1\r\n\r\n\r\nGET /keep HTTP/1.1\r\n\r\n"
                    "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
                    "GET /stream HTTP/1.1\r\n\r\nGET /hello/5 HTTP/1.1\r\n\r\n");
    expect(&c, 200, "hello 1");
    wait_for_count(f, "kept=1 ");
    client_send(&other, "GET /release HTTP/1.1\r\n\r\n");
    expect(&other, 200, "1");
    expect(&c, 200, "{}");
    expect(&c, 201, "abc");
    expect(&c, 200, "id: 7\nevent: state\ndata: {\"x\":1}\n\n: more\n");
    expect(&c, 200, "hello 5");
    client_close(&c);
    client_close(&other);
    fixture_stop(f);
}

static void pipelined_flood_is_answered_completely(void **state)
{
    (void)state;
    enum { REQUESTS = 5000 };
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f), other = client_open(f);
    struct str text;
    str_init(&text, 1 << 20);
    for (int i = 0; i < REQUESTS; i++)
        str_printf(&text, "GET /hello/%d HTTP/1.1\r\n\r\n", i);
    client_send(&c, "GET /keep HTTP/1.1\r\n\r\n");
    wait_for_count(f, "kept=1 ");
    /* more than the server reads while a request is in flight */
    client_write(&c, text.data, 100000);
    client_send(&other, "GET /release HTTP/1.1\r\n\r\n");
    expect(&other, 200, "1");
    client_write(&c, text.data + 100000, text.length - 100000);
    expect(&c, 200, "{}");
    for (int i = 0; i < REQUESTS; i++) {
        char head[256], body[32], expected[32];
        size_t length = client_find(&c, "\r\n\r\n");
        assert_true(length < sizeof head);
        client_take(&c, head, length);
        head[length] = '\0';
        int bytes = snprintf(expected, sizeof expected, "hello %d", i);
        client_take(&c, body, (size_t)bytes);
        body[bytes] = '\0';
        assert_string_equal(body, expected);
    }
    str_done(&text);
    client_close(&c);
    client_close(&other);
    fixture_stop(f);
}

static void unknown_path_or_method_gets_problem(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f);
    client_send(&c, "GET /nothing HTTP/1.1\r\n\r\n");
    expect(&c, 404, "urn:gpumux:problem:not-found");
    client_send(&c, "GET /hello/ HTTP/1.1\r\n\r\n");
    expect(&c, 404, "\"status\":404");
    client_send(&c, "GET /hello/a/b HTTP/1.1\r\n\r\n");
    expect(&c, 404, "");
    client_send(&c, "DELETE /echo HTTP/1.1\r\n\r\n");
    struct response r = client_receive(&c);
    assert_int_equal(r.status, 405);
    assert_non_null(strstr(r.head, "\r\nAllow: POST, PUT\r\n"));
    free(r.body);
    client_send(&c, "BREW /echo HTTP/1.1\r\n\r\n");
    expect(&c, 405, "urn:gpumux:problem:method");
    client_send(&c, "HEAD /hello/x HTTP/1.1\r\n\r\nGET /hello/x HTTP/1.1\r\n\r\n");
    char head[2048];
    size_t length = client_find(&c, "\r\n\r\n");
    assert_true(length < sizeof head);
    client_take(&c, head, length);
    assert_int_equal(strncmp(head, "HTTP/1.1 405 ", 13), 0);
    expect(&c, 200, "hello x"); /* there was no body in between */
    client_send(&c, "GET /query?a=1&c%22=2 HTTP/1.1\r\n\r\n");
    expect(&c, 400, "\"field\":\"c\\\"\"");
    client_close(&c);
    fixture_stop(f);
}

static void malformed_request_ends_connection(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"nonsense\r\n\r\n", 400},
        {"GET /hello/x HTTP/2.0\r\n\r\n", 400},
        {"GET http://x/ HTTP/1.1\r\n\r\n", 400},
        {"G(T /x HTTP/1.1\r\n\r\n", 400},
        {"GET /hello/x HTTP/1.1\r\nno colon\r\n\r\n", 400},
        {"GET /hello/x HTTP/1.1\r\nA b: c\r\n\r\n", 400},
        {"GET /hello/x HTTP/1.1\r\nA: \x01\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413},
        {"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
        {"GET /query?a=%zz HTTP/1.1\r\n\r\n", 400},
        {"GET /query?a=%00 HTTP/1.1\r\n\r\n", 400},
        {"GET /query?a=%ff HTTP/1.1\r\n\r\n", 400},
    };
    struct fixture *f = fixture_start(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client c = client_open(f);
        client_send(&c, cases[i].request);
        expect(&c, cases[i].status, "\"detail\":");
        assert_true(at_end(&c));
        client_close(&c);
    }
    struct client c = client_open(f);
    /* well framed: the connection may continue */
    client_send(&c, "GET /hello/%ff HTTP/1.1\r\n\r\n");
    expect(&c, 400, "percent-encoded");
    client_send(&c, "GET /\xff HTTP/1.1\r\n\r\n");
    expect(&c, 404, "there is no /\xef\xbf\xbd");
    client_close(&c);
    fixture_stop(f);
}

static void oversized_request_is_refused(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    size_t length = HTTP_BODY_MAX + 1;
    char *body = calloc(1, length), head[128];
    assert_non_null(body);
    memset(body, 'b', length - 1);
    struct client c = client_open(f);
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nContent-Length: %zu\r\n\r\n", length);
    client_send(&c, head);
    client_write(&c, body, length); /* a client that continues to send still gets the response */
    expect(&c, 413, "too-large");
    client_close(&c);

    c = client_open(f);
    snprintf(head, sizeof head,
             "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
             HTTP_BODY_MAX);
    client_send(&c, head);
    char go_on[25];
    client_take(&c, go_on, sizeof go_on);
    assert_memory_equal(go_on, "HTTP/1.1 100 Continue\r\n\r\n", sizeof go_on);
    client_write(&c, body, HTTP_BODY_MAX);
    struct response r = client_receive(&c);
    assert_int_equal(r.status, 201);
    assert_int_equal(r.length, HTTP_BODY_MAX);
    assert_memory_equal(r.body, body, HTTP_BODY_MAX);
    free(r.body);
    client_close(&c);

    c = client_open(f);
    client_send(&c, "GET /hello/x HTTP/1.1\r\nX: ");
    client_write(&c, body, HTTP_HEADER_MAX);
    expect(&c, 413, "a head of more than");
    client_close(&c);
    free(body);
    fixture_stop(f);
}

static void slow_client_is_disconnected(void **state)
{
    (void)state;
    const struct http_timeouts short_times = {
        .request_ms = 200, .idle_ms = 100000, .answer_ms = 200};
    struct fixture *f = fixture_start(&short_times);
    struct client idle = client_open(f), half = client_open(f), deaf = client_open(f);
    client_send(&half, "GET /hello/x HT");
    assert_true(at_end(&half));
    client_close(&half);
    half = client_open(f);
    client_send(&half, "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
    assert_true(at_end(&half));
    client_close(&half);
    client_send(&deaf, "GET /large HTTP/1.1\r\n\r\n");
    wait_for_count(f, "open=2 "); /* the idle connection and the connection with the request */
    client_close(&deaf);
    client_send(&idle, "GET /hello/x HTTP/1.1\r\n\r\n");
    expect(&idle, 200, "hello x");
    client_close(&idle);
    fixture_stop(f);
}

static void idle_connection_times_out(void **state)
{
    (void)state;
    const struct http_timeouts short_times = {
        .request_ms = 9000, .idle_ms = 100, .answer_ms = 9000};
    struct fixture *f = fixture_start(&short_times);
    struct client c = client_open(f);
    assert_true(at_end(&c));
    client_close(&c);
    fixture_stop(f);
}

static void request_survives_client_disconnect(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client gone = client_open(f), half = client_open(f), c = client_open(f);
    client_send(&gone, "GET /keep HTTP/1.1\r\n\r\n");
    wait_for_count(f, "kept=1 ");
    client_close(&gone);
    client_send(&half, "GET /keep HTTP/1.1\r\n\r\n");
    assert_int_equal(shutdown(half.fd, SHUT_WR), 0);
    wait_for_count(f, "kept=2 ");
    client_send(&c, "GET /release HTTP/1.1\r\n\r\n");
    expect(&c, 200, "2");
    expect(&half, 200, "{}"); /* a client that closed its sending side still gets its response */
    assert_true(at_end(&half));
    wait_for_count(f, "open=2 ");
    client_close(&half);
    client_send(&c, "GET /keep HTTP/1.1\r\n\r\n"); /* in flight when the server ends */
    wait_for_count(f, "kept=1 ");
    client_close(&c);
    fixture_stop(f);
}

static void stream_without_reader_is_closed(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f);
    client_send(&c, "GET /flood HTTP/1.1\r\n\r\n");
    wait_for_count(f, "streams=0 closed=1 ");
    client_close(&c);
    fixture_stop(f);
}

static void stream_closes_when_client_leaves(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f);
    client_send(&c, "GET /watch HTTP/1.1\r\n\r\n");
    client_find(&c, "\r\n\r\n");
    wait_for_count(f, "streams=1 closed=0 ");
    client_close(&c);
    wait_for_count(f, "streams=0 closed=1 ");
    c = client_open(f);
    client_send(&c, "GET /watch HTTP/1.1\r\n\r\n");
    client_find(&c, "\r\n\r\n");
    wait_for_count(f, "streams=1 closed=1 "); /* open when the server ends */
    fixture_stop(f);
    client_close(&c);
}

static void aborted_stream_has_no_final_chunk(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f);
    client_send(&c, "GET /half HTTP/1.1\r\n\r\n");
    while (client_read(&c))
        ;
    c.data[c.length] = '\0';
    const char *body = strstr(c.data, "\r\n\r\n");
    assert_non_null(body);
    assert_string_equal(body, "\r\n\r\n4\r\nhalf\r\n"); /* no final "0" chunk */
    wait_for_count(f, "streams=0 closed=1 ");
    client_close(&c);
    fixture_stop(f);
}

static void http10_stream_ends_with_connection(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client c = client_open(f);
    client_send(&c, "GET /stream HTTP/1.0\r\n\r\n");
    while (client_read(&c))
        ;
    c.data[c.length] = '\0';
    assert_null(strstr(c.data, "chunked"));
    assert_non_null(strstr(c.data, "\r\n\r\nid: 7\nevent: state\ndata: {\"x\":1}\n\n: more\n"));
    client_close(&c);
    fixture_stop(f);
}

static void connections_beyond_maximum_are_refused(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct client clients[CONNECTIONS_MAX];
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        clients[i] = client_open(f);
        client_send(&clients[i], "GET /hello/x HTTP/1.1\r\n\r\n");
        expect(&clients[i], 200, "hello x");
    }
    struct client more = client_open(f);
    expect(&more, 503, "too many connections");
    assert_true(at_end(&more));
    client_close(&more);
    client_close(&clients[0]);
    /* There is room once the server has noticed the closed connection. */
    client_send(&clients[1], "GET /count HTTP/1.1\r\n\r\n");
    expect(&clients[1], 200, "open=7 refused=1 ");
    clients[0] = client_open(f);
    client_send(&clients[0], "GET /hello/x HTTP/1.1\r\n\r\n");
    expect(&clients[0], 200, "hello x");
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        client_close(&clients[i]);
    fixture_stop(f);
}

static void socket_in_use_is_not_replaced(void **state)
{
    (void)state;
    struct fixture *f = fixture_start(NULL);
    struct event_base *base = event_base_new();
    struct http_server *second;
    struct error e = {0};
    assert_int_equal(http_server_new(&e, base, &f->log, routes, f, 1, &second), 0);
    assert_int_equal(http_server_listen_unix(&e, second, f->path, 0600), -ERR_BUSY);
    assert_non_null(strstr(e.text, f->path));
    char longer[300];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(http_server_listen_unix(&e, second, longer, 0600), -ERR_INVALID);
    /* A socket that a killed server left behind is replaced. */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/dead.sock", f->directory);
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)&address, sizeof address), 0);
    close(dead);
    assert_int_equal(http_server_listen_unix(&e, second, address.sun_path, 0620), 0);
    struct stat st;
    assert_int_equal(stat(address.sun_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0620);
    http_server_free(second);
    event_base_free(base);
    fixture_stop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connection_kept_alive_serves_many_requests),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(pipelined_flood_is_answered_completely),
        cmocka_unit_test(unknown_path_or_method_gets_problem),
        cmocka_unit_test(malformed_request_ends_connection),
        cmocka_unit_test(oversized_request_is_refused),
        cmocka_unit_test(slow_client_is_disconnected),
        cmocka_unit_test(idle_connection_times_out),
        cmocka_unit_test(request_survives_client_disconnect),
        cmocka_unit_test(stream_without_reader_is_closed),
        cmocka_unit_test(stream_closes_when_client_leaves),
        cmocka_unit_test(aborted_stream_has_no_final_chunk),
        cmocka_unit_test(http10_stream_ends_with_connection),
        cmocka_unit_test(connections_beyond_maximum_are_refused),
        cmocka_unit_test(socket_in_use_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
