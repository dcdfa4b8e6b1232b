/* Commands while gpumux starts: a process that holds the lock, and listens later or never. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cli/connect/client.h"

enum { LATER_MS = 300, NOBODY = 65534, REQUEST_BYTES = 8192 };

static const struct option options[] = {
    {"socket", 0, "PATH", "where", NULL}, {"url", 0, "URL", "where", NULL}, {0}};
static const struct command command = {.name = "test", .options = options};
static const struct invocation invocation = {.command = &command};

/* root: directory of the test. state: below root, missing at first. */
struct fixture {
    char root[32], state[48], socket[64], lock[64];
    pid_t starting;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    if (geteuid() == 0)
        assert_int_equal(seteuid(NOBODY), 0); /* root knows only the machine's gpumux */
    snprintf(f->root, sizeof f->root, "/tmp/gms.XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->state, sizeof f->state, "%s/gpumux", f->root);
    snprintf(f->socket, sizeof f->socket, "%s/api.sock", f->state);
    snprintf(f->lock, sizeof f->lock, "%s/lock", f->state);
    assert_int_equal(setenv("XDG_STATE_HOME", f->root, 1), 0);
    assert_int_equal(setenv("GPUMUX_SOCKET", f->socket, 1), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->starting > 0) {
        kill(f->starting, SIGKILL);
        waitpid(f->starting, NULL, 0);
    }
    unlink(f->socket);
    unlink(f->lock);
    rmdir(f->state);
    rmdir(f->root);
    free(f);
    return seteuid(getuid());
}

static int bind_socket(const struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(str_copy(address.sun_path, sizeof address.sun_path, f->socket));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static _Noreturn void listen_later(const struct fixture *f)
{
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    char bytes[REQUEST_BYTES];
    usleep(LATER_MS * 1000);
    unlink(f->socket);
    int listener = bind_socket(f);
    (void)listen(listener, 8);
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd))
        if (recv(fd, bytes, sizeof bytes, 0) <= 0 || write(fd, answer, strlen(answer)) < 0)
            break;
    _exit(0);
}

/* Returns when the process holds the lock. */
static void start_gpumux(struct fixture *f, bool comes_to_listen)
{
    (void)mkdir(f->state, 0711);
    int fd = open(f->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    f->starting = fork();
    assert_true(f->starting >= 0);
    if (f->starting == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (comes_to_listen)
            listen_later(f);
        usleep(LATER_MS * 1000);
        _exit(1);
    }
    close(fd); /* the process keeps the lock */
}

/* Returns the time that the request took. */
static int64_t ask(struct client *c, int expected)
{
    struct error e = {0};
    int64_t since_ms = clock_boot_ms();
    int r = client_request(&e, c, "POST", "/v1/x", "{}", 0, NULL);
    if (r != expected)
        fail_msg("%d instead of %d: %s", r, expected, e.text);
    return clock_boot_ms() - since_ms;
}

static void command_waits_for_starting_gpumux(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start_gpumux(f, true);
    assert_int_equal(client_init(&c, &invocation), COMMAND_OK);
    (void)ask(&c, 0);
    client_done(&c);
}

/* A killed gpumux leaves its socket behind. */
static void stale_socket_does_not_prevent_wait(void **state)
{
    struct fixture *f = *state;
    struct client c;
    assert_int_equal(mkdir(f->state, 0711), 0);
    close(bind_socket(f));
    start_gpumux(f, true);
    assert_int_equal(client_init(&c, &invocation), COMMAND_OK);
    (void)ask(&c, 0);
    client_done(&c);
}

static void failed_start_ends_wait(void **state)
{
    struct fixture *f = *state;
    struct client c;
    start_gpumux(f, false);
    assert_int_equal(client_init(&c, &invocation), COMMAND_OK);
    int64_t took_ms = ask(&c, -ERR_UNAVAILABLE);
    assert_true(took_ms >= LATER_MS / 2 && took_ms < CLIENT_START_MS);
    client_done(&c);
}

static void absent_gpumux_fails_at_once(void **state)
{
    struct fixture *f = *state;
    struct client c;
    assert_int_equal(client_init(&c, &invocation), COMMAND_OK);
    assert_true(ask(&c, -ERR_UNAVAILABLE) < CLIENT_START_MS / 2);
    assert_string_equal(c.socket, f->socket);
    client_done(&c);
}

/* No socket is configured, and the machine has no gpumux. */
static void users_own_gpumux_is_found(void **state)
{
    struct fixture *f = *state;
    struct client before, c;
    if (access("/var/lib/gpumux/api.sock", F_OK) == 0) {
        print_message("skipped: this machine has a gpumux\n");
        return;
    }
    assert_int_equal(unsetenv("GPUMUX_SOCKET"), 0);
    assert_int_equal(client_init(&before, &invocation), COMMAND_OK);
    assert_string_not_equal(before.socket, f->socket);
    start_gpumux(f, true);
    assert_int_equal(client_init(&c, &invocation), COMMAND_OK);
    assert_string_equal(c.socket, f->socket);
    (void)ask(&c, 0);
    (void)ask(&before, 0);
    client_done(&c);
    client_done(&before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(command_waits_for_starting_gpumux),
        TEST(stale_socket_does_not_prevent_wait),
        TEST(failed_start_ends_wait),
        TEST(absent_gpumux_fails_at_once),
        TEST(users_own_gpumux_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
