/* Control and nodes of different versions: adjacent versions are accepted, and others are refused
 * with the reason. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/version.h"
#include "wire/nodemsg.h"

enum { DEADLINE_MS = 60000, PATH_BYTES = 64, LINE_BYTES = 64 << 10, ARENA_BYTES = 1 << 20 };

struct fixture {
    char directory[32], state[PATH_BYTES], socket[PATH_BYTES];
    pid_t control;
};

static _Noreturn void become_control(const struct fixture *f, pid_t parent)
{
    char program[4096], log[PATH_BYTES];
    snprintf(program, sizeof program, "%s/src/cli/gpumux", getenv("GPUMUX_BUILD"));
    snprintf(log, sizeof log, "%s/log", f->directory);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    execl(program, program, "control", "--state", f->state, (char *)NULL);
    _exit(127);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_non_null(getenv("GPUMUX_BUILD"));
    snprintf(f->directory, sizeof f->directory, "/tmp/gmv.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->state, sizeof f->state, "%s/s", f->directory);
    snprintf(f->socket, sizeof f->socket, "%s/s/node.sock", f->directory);
    pid_t parent = getpid();
    f->control = fork();
    assert_true(f->control >= 0);
    if (f->control == 0)
        become_control(f, parent);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    kill(f->control, SIGTERM);
    waitpid(f->control, NULL, 0);
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", f->directory, (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    free(f);
    return 0;
}

/* Waits until control listens. */
static int connect_to(const struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(str_copy(address.sun_path, sizeof address.sun_path, f->socket));
    int64_t give_up_ms = clock_boot_ms() + DEADLINE_MS;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (clock_boot_ms() > give_up_ms || waitpid(f->control, NULL, WNOHANG) != 0)
            fail_msg("control does not listen at %s", f->socket);
        poll(NULL, 0, 10);
    }
    return fd;
}

static void say_hello(int fd, const char *name, const char *version, int protocol)
{
    struct node_info *info = calloc(1, sizeof *info);
    assert_non_null(info);
    assert_true(str_copy(info->name, sizeof info->name, name));
    assert_true(str_copy(info->instance, sizeof info->instance, "0123456789abcdef"));
    assert_true(str_copy(info->version, sizeof info->version, version));
    struct nodemsg hello = {
        .type = NODEMSG_HELLO, .protocol = protocol, .version = info->version, .node = info};
    struct str line;
    str_init(&line, LINE_BYTES);
    assert_int_equal(nodemsg_write(&hello, &line), 0);
    assert_int_equal(send(fd, str_text(&line), line.length, MSG_NOSIGNAL), line.length);
    str_done(&line);
    free(info);
}

/* Receives the first message; *ret_closes: the connection ends after it. */
static void receive(int fd, struct arena *arena, struct nodemsg *ret, bool *ret_closes)
{
    char line[LINE_BYTES];
    size_t length = 0;
    char *end = NULL;
    while (!end) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&at, 1, DEADLINE_MS), 1);
        ssize_t n = recv(fd, line + length, sizeof line - length, 0);
        if (n <= 0)
            fail_msg("control hung up without a word");
        length += (size_t)n;
        end = memchr(line, '\n', length);
    }
    struct error e = {0};
    if (nodemsg_parse(&e, arena, line, (size_t)(end - line), ret) < 0)
        fail_msg("%s", e.text);
    *ret_closes = false;
    if (ret->type == NODEMSG_REFUSE) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&at, 1, DEADLINE_MS), 1);
        *ret_closes = recv(fd, line, sizeof line, 0) == 0;
    }
}

static void expect_welcome(const struct fixture *f, const char *name, const char *version)
{
    struct arena arena;
    struct nodemsg answer;
    bool closes;
    arena_init(&arena, ARENA_BYTES);
    int fd = connect_to(f);
    say_hello(fd, name, version, NODEMSG_PROTOCOL);
    receive(fd, &arena, &answer, &closes);
    assert_int_equal(answer.type, NODEMSG_WELCOME);
    assert_string_equal(answer.version, GPUMUX_VERSION);
    close(fd);
    arena_done(&arena);
}

static void expect_refusal(const struct fixture *f, const char *version, int protocol)
{
    struct arena arena;
    struct nodemsg answer;
    bool closes;
    arena_init(&arena, ARENA_BYTES);
    int fd = connect_to(f);
    say_hello(fd, "stranger", version, protocol);
    receive(fd, &arena, &answer, &closes);
    assert_int_equal(answer.type, NODEMSG_REFUSE);
    assert_non_null(strstr(answer.text, version));
    assert_non_null(strstr(answer.text, GPUMUX_VERSION));
    assert_true(closes);
    close(fd);
    arena_done(&arena);
}

static void adjacent_versions_are_welcomed(void **state)
{
    char version[NODE_VERSION_MAX];
    expect_welcome(*state, "same", GPUMUX_VERSION);
    snprintf(version, sizeof version, "%d.%d.9", GPUMUX_VERSION_MAJOR, GPUMUX_VERSION_MINOR + 1);
    expect_welcome(*state, "newer", version);
}

static void distant_versions_are_refused(void **state)
{
    char version[NODE_VERSION_MAX];
    snprintf(version, sizeof version, "%d.%d.0", GPUMUX_VERSION_MAJOR, GPUMUX_VERSION_MINOR + 2);
    expect_refusal(*state, version, NODEMSG_PROTOCOL);
    snprintf(version, sizeof version, "%d.%d.0", GPUMUX_VERSION_MAJOR + 1, GPUMUX_VERSION_MINOR);
    expect_refusal(*state, version, NODEMSG_PROTOCOL);
    expect_refusal(*state, "newest", NODEMSG_PROTOCOL);
    expect_refusal(*state, GPUMUX_VERSION, NODEMSG_PROTOCOL + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_versions_are_welcomed),
        cmocka_unit_test(distant_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
