/* Limits of one user on a shared server. The users are effective uids of threads, which the kernel
 * records when they connect; so the test needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <event2/event.h>
#include <cmocka.h>

#include "endpoint/http_internal.h"
#include "endpoint/loop_fixture.h"

enum {
    CONNECTIONS_MAX = 128,
    PART = CONNECTIONS_MAX / HTTP_CONNECTIONS_PART,
    KEPT = PART, /* as CONNECTIONS_MAX is small */
    /* one less than the bodies alone, because of the heads */
    LARGE_ALL = HTTP_INPUT_MAX / HTTP_BODY_MAX - 1,
    LARGE_PART = LARGE_ALL / HTTP_INPUT_PART,
    WAIT_S = 20,
    FIRST_USER = 60000, /* uids without an account */
};

/* ---- the server under test ---- */

struct fixture {
    char directory[40], path[64];
    struct event_base *base;
    struct http_server *server;
    struct log log;
    struct loop_thread loop;
};

static void on_hello(void *context, struct http_request *r)
{
    (void)context;
    http_answer_text(r, 200, "text/plain", "hello", 5);
}

static const struct http_route routes[] = {
    {HTTP_POST, "/hello", on_hello, HTTP_ANYBODY},
    {HTTP_GET, NULL, NULL, HTTP_ANYBODY},
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->directory, sizeof f->directory, "/tmp/gpumux-limits-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    assert_int_equal(chmod(f->directory, 0755), 0);
    snprintf(f->path, sizeof f->path, "%s/api.sock", f->directory);
    log_init(&f->log, STDERR_FILENO, LOG_ERROR, false);
    f->base = event_base_new();
    assert_int_equal(
        http_server_new(NULL, f->base, &f->log, routes, f, CONNECTIONS_MAX, &f->server), 0);
    assert_int_equal(http_server_listen_unix(NULL, f->server, f->path, 0666), 0);
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
    assert_int_equal(rmdir(f->directory), 0);
    free(f);
    return 0;
}

/* ---- clients ---- */

/* Changes the uid of this thread alone; the C library's call would change every thread's. */
static void become(uid_t uid)
{
    assert_int_equal(syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1), 0);
}

static int open_as(const struct fixture *f, uid_t uid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval wait = {.tv_sec = WAIT_S};
    str_copy(address.sun_path, sizeof address.sun_path, f->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    become(uid);
    int r = connect(fd, (struct sockaddr *)&address, sizeof address);
    become(0);
    assert_int_equal(r, 0);
    return fd;
}

/* Reads until `text` has arrived. */
static void expect(int fd, const char *text)
{
    char got[4096] = "";
    size_t length = 0;
    while (!strstr(got, text)) {
        ssize_t n = recv(fd, got + length, sizeof got - 1 - length, 0);
        if (n <= 0)
            fail_msg("waited for \"%s\", got \"%s\"", text, got);
        length += (size_t)n;
        got[length] = '\0';
    }
}

/* Opens a connection that is served and stays open. */
static int open_served(const struct fixture *f, uid_t uid)
{
    static const char request[] = "POST /hello HTTP/1.1\r\n\r\n";
    int fd = open_as(f, uid);
    assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    expect(fd, "\r\n\r\nhello");
    return fd;
}

static void expect_refused(const struct fixture *f, uid_t uid, const char *why)
{
    int fd = open_as(f, uid);
    expect(fd, why);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

/* ---- tests ---- */

static void user_connections_leave_reserve_for_root(void **state)
{
    const struct fixture *f = *state;
    int fds[CONNECTIONS_MAX], count = 0;
    for (uid_t user = FIRST_USER; count < CONNECTIONS_MAX - KEPT; user++) {
        for (int i = 0; i < PART; i++)
            fds[count++] = open_served(f, user);
        if (count < CONNECTIONS_MAX - KEPT)
            expect_refused(f, user, "\"detail\":\"you have too many connections open already: ");
    }
    expect_refused(f, FIRST_USER - 1, "\"detail\":\"too many connections are open already\"");
    while (count < CONNECTIONS_MAX)
        fds[count++] = open_served(f, 0);
    expect_refused(f, 0, "\"detail\":\"too many connections are open already\"");
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        close(fds[i]);
}

static void user_closing_connection_may_open_another(void **state)
{
    const struct fixture *f = *state;
    int fds[PART];
    for (int i = 0; i < PART; i++)
        fds[i] = open_served(f, FIRST_USER);
    close(fds[0]);
    /* The server notices the close before it accepts the next connection, so that this response
     * comes later. */
    int other = open_served(f, FIRST_USER + 1);
    fds[0] = open_served(f, FIRST_USER);
    expect_refused(f, FIRST_USER, "you have too many");
    for (int i = 0; i < PART; i++)
        close(fds[i]);
    close(other);
}

static void root_may_use_every_connection(void **state)
{
    const struct fixture *f = *state;
    int fds[CONNECTIONS_MAX];
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        fds[i] = open_served(f, 0);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        close(fds[i]);
}

/* Sends the head of a large request; the server then permits the body. */
static int open_large(const struct fixture *f, uid_t uid)
{
    char head[128];
    int fd = open_as(f, uid);
    int length =
        snprintf(head, sizeof head,
                 "POST /hello HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
                 HTTP_BODY_MAX);
    assert_int_equal(send(fd, head, (size_t)length, MSG_NOSIGNAL), length);
    return fd;
}

static void expect_large_refused(const struct fixture *f, uid_t uid)
{
    int fd = open_large(f, uid);
    expect(fd, "HTTP/1.1 503 ");
    close(fd);
}

static void large_requests_beyond_room_are_refused(void **state)
{
    const struct fixture *f = *state;
    int fds[LARGE_ALL], count = 0;
    for (uid_t user = FIRST_USER; count < LARGE_ALL; user++) {
        for (int i = 0; i < LARGE_PART && count < LARGE_ALL; i++) {
            fds[count] = open_large(f, user);
            expect(fds[count++], "100 Continue");
        }
        expect_large_refused(f, user);
    }
    expect_large_refused(f, 0);
    /* Small requests pass, and a request whose room was granted can still send its body. */
    close(open_served(f, FIRST_USER));
    char *body = calloc(1, HTTP_BODY_MAX);
    assert_non_null(body);
    for (size_t sent = 0; sent < HTTP_BODY_MAX;) {
        ssize_t n = send(fds[0], body + sent, HTTP_BODY_MAX - sent, MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
    }
    free(body);
    expect(fds[0], "\r\n\r\nhello");
    close(fds[0]);
    fds[0] = open_large(f, FIRST_USER); /* room for another request */
    expect(fds[0], "100 Continue");
    for (int i = 0; i < LARGE_ALL; i++)
        close(fds[i]);
}

int main(void)
{
    if (geteuid() != 0) {
        puts("needs root, to be several users");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(user_connections_leave_reserve_for_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(user_closing_connection_may_open_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(root_may_use_every_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_requests_beyond_room_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
