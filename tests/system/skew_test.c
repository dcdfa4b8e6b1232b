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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/version.h"
#include "control/node_fixture.h"

enum { DEADLINE_MS = 60000, PATH_BYTES = 64 };

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

/* Says hello as soon as control listens. */
static void join(const struct fixture *f, struct test_node *n, const char *name,
                 const char *version, int protocol)
{
    int64_t give_up_ms = clock_boot_ms() + DEADLINE_MS;
    while (!test_node_connect(n, f->socket, NULL, NULL)) {
        if (clock_boot_ms() > give_up_ms || waitpid(f->control, NULL, WNOHANG) != 0)
            fail_msg("control does not listen at %s", f->socket);
        poll(NULL, 0, 10);
    }
    test_node_hello(n, name, version, protocol);
}

static void expect_welcome(const struct fixture *f, const char *name, const char *version)
{
    struct test_node node;
    join(f, &node, name, version, NODEMSG_PROTOCOL);
    test_node_expect(&node, NODEMSG_WELCOME);
    assert_string_equal(node.msg.version, GPUMUX_VERSION);
    test_node_close(&node);
}

static void expect_refusal(const struct fixture *f, const char *version, int protocol)
{
    struct test_node node;
    join(f, &node, "stranger", version, protocol);
    test_node_expect(&node, NODEMSG_REFUSE);
    assert_non_null(strstr(node.msg.text, version));
    assert_non_null(strstr(node.msg.text, GPUMUX_VERSION));
    assert_false(test_node_hears(&node)); /* control closes the connection */
    test_node_close(&node);
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
