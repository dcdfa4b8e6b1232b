/* The client against a server that follows a script. */
#include "wire/http/http_client.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/http/sse.h"

/* One connection's responses, one for each request; "" closes without a response, NULL ends the
 * connection. */
struct connection {
    const char *answers[4];
};

struct fixture {
    char directory[32], path[64];
    pid_t server;
};

static bool read_request(int fd)
{
    char bytes[8192];
    size_t length = 0;
    while (length + 1 < sizeof bytes) {
        ssize_t n = read(fd, bytes + length, sizeof bytes - 1 - length);
        if (n <= 0)
            return false;
        length += (size_t)n;
        bytes[length] = '\0';
        const char *end = strstr(bytes, "\r\n\r\n");
        const char *body = strstr(bytes, "Content-Length: ");
        if (end && length >= (size_t)(end + 4 - bytes) + (body ? strtoul(body + 16, NULL, 10) : 0))
            return true;
    }
    return false;
}

static void serve(int listener, const struct connection *connections, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int fd = accept(listener, NULL, NULL);
        for (size_t a = 0; fd >= 0 && connections[i].answers[a]; a++) {
            const char *answer = connections[i].answers[a];
            if (!read_request(fd) || !*answer)
                break;
            if (write(fd, answer, strlen(answer)) < 0)
                break;
        }
        close(fd);
    }
    _exit(0);
}

static void start(struct fixture *f, const struct connection *connections, size_t count)
{
    strncpy(f->directory, "/tmp/http_client.XXXXXX", sizeof f->directory);
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->path, sizeof f->path, "%s/s", f->directory);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(str_copy(address.sun_path, sizeof address.sun_path, f->path));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    f->server = fork();
    assert_true(f->server >= 0);
    if (f->server == 0)
        serve(listener, connections, count);
    close(listener);
}

static void stop(struct fixture *f)
{
    kill(f->server, SIGKILL);
    waitpid(f->server, NULL, 0);
    unlink(f->path);
    rmdir(f->directory);
}

static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
static const struct http_call get = {.method = "GET", .target = "/", .timeout_ms = 60000};

static void http_client_reuses_and_reopens_connection(void **state)
{
    (void)state;
    struct fixture f;
    const struct connection script[] = {{{hello, hello, NULL}}, {{hello, NULL}}};
    start(&f, script, 2);
    struct http_client *c = http_client_new(f.path);
    for (int i = 0; i < 3; i++) {
        struct error e = {0};
        /* The third request meets a connection that was closed while idle. */
        while (i == 2 && recv(http_client_fd(c), &(char){0}, 1, MSG_PEEK) > 0)
            ;
        if (http_client_call(&e, c, &get) < 0)
            fail_msg("call %d: %s", i, e.text);
        size_t length;
        assert_string_equal(http_client_body(c, &length), "hello");
        assert_int_equal(length, 5);
        assert_int_equal(http_client_status(c), 200);
    }
    http_client_free(c);
    stop(&f);
}

static int count_bytes(void *arg, const char *bytes, size_t length)
{
    (void)bytes;
    *(size_t *)arg += length;
    return 0;
}

static int refuse_bytes(void *arg, const char *bytes, size_t length)
{
    (void)arg, (void)bytes, (void)length;
    return -ERR_IO;
}

static void http_client_streams_only_success_bodies(void **state)
{
    (void)state;
    struct fixture f;
    static const char chunks[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    static const char problem[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\n{ }";
    static const char cut[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    const struct connection script[] = {
        {{chunks, problem, chunks, NULL}}, {{cut, NULL}}, {{"", NULL}}};
    start(&f, script, 3);
    struct http_client *c = http_client_new(f.path);
    size_t bytes = 0;
    struct http_call call = get;
    call.on_body = count_bytes;
    call.arg = &bytes;
    assert_int_equal(http_client_call(NULL, c, &call), 0);
    assert_int_equal(bytes, 5);
    assert_int_equal(http_client_call(NULL, c, &call), 0);
    assert_int_equal(bytes, 5); /* the text of an error is not part of the stream */
    assert_int_equal(http_client_status(c), 404);
    assert_string_equal(http_client_body(c, NULL), "{ }");
    call.on_body = refuse_bytes;
    assert_int_equal(http_client_call(NULL, c, &call), -ERR_IO);
    assert_int_equal(http_client_call(NULL, c, &get), -ERR_PROTOCOL);
    assert_int_equal(http_client_call(NULL, c, &get), -ERR_UNAVAILABLE);
    http_client_free(c);
    stop(&f);
}

static void http_client_without_server_is_unavailable(void **state)
{
    (void)state;
    struct error e = {0};
    struct http_client *c = http_client_new("/tmp/http_client.nobody/s");
    assert_int_equal(http_client_call(&e, c, &get), -ERR_UNAVAILABLE);
    assert_non_null(strstr(e.text, "/tmp/http_client.nobody/s"));
    http_client_free(c);
    char path[200];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_null(http_client_new(path));
}

static void http_client_stalled_response_times_out(void **state)
{
    (void)state;
    struct fixture f;
    const struct connection script[] = {{{"HTTP/1.1 200 OK\r\n", hello, NULL}}};
    start(&f, script, 1);
    struct http_client *c = http_client_new(f.path);
    struct http_call call = get;
    call.timeout_ms = 50;
    assert_int_equal(http_client_call(NULL, c, &call), -ERR_TIMEOUT);
    assert_int_equal(http_client_fd(c), -1);
    http_client_free(c);
    stop(&f);
}

static int note_event(void *arg, const struct sse_event *event)
{
    str_printf(arg, "[%llu %s %s]", (unsigned long long)event->id, event->what, event->data);
    return 0;
}

static void sse_events_parse_at_any_split(void **state)
{
    (void)state;
    static const char text[] = ": comment\nid: 7\nevent: running\ndata: a\ndata: b\r\n\r\n"
                               "id: x\ndata:c\n\nevent: lost\n\nid: 9\ndata: d\n\ndata: cut";
    for (size_t step = 1; step < sizeof text; step++) {
        struct str out;
        str_init(&out, 4096);
        struct sse_parser p;
        sse_parser_init(&p, note_event, &out);
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t left = sizeof text - 1 - at;
            assert_int_equal(sse_parser_feed(&p, text + at, left < step ? left : step), 0);
        }
        assert_string_equal(str_text(&out), "[7 running a\nb][7  c][9  d]");
        sse_parser_done(&p);
        str_done(&out);
    }
}

static void url_reserved_characters_are_encoded(void **state)
{
    (void)state;
    struct str out;
    str_init(&out, 4096);
    http_append_encoded(&out, "a-Z.9 [0]/?&\xc3\xa9");
    assert_string_equal(str_text(&out), "a-Z.9%20%5B0%5D%2F%3F%26%C3%A9");
    str_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_client_reuses_and_reopens_connection),
        cmocka_unit_test(http_client_streams_only_success_bodies),
        cmocka_unit_test(http_client_without_server_is_unavailable),
        cmocka_unit_test(http_client_stalled_response_times_out),
        cmocka_unit_test(sse_events_parse_at_any_split),
        cmocka_unit_test(url_reserved_characters_are_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
