/* The supervisor's socket as programs of the task use it: many connections, and advice. */
#include "node/supervisor/supervisor_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "node/supervisor/control_socket.h"
#include "node/supervisor/supervisor.h"

enum { CONNECTIONS = CONTROL_PEERS_MAX + 4 };

/* Reports over more connections than there is room for: a connection that is refused would end. */
static int report_over_all(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[256] = "";
    str_copy(address.sun_path, sizeof address.sun_path, path);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
            send(fd, "progress 5", 10, MSG_NOSIGNAL) < 0 ||
            recv(fd, answer, sizeof answer, 0) != 2 || strncmp(answer, "ok", 2) != 0)
            return 1;
    }
    return 0;
}

static void new_connection_replaces_silent_one(void **state)
{
    struct fixture *f = *state;
    char program[256] = "", path[128];
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(path, sizeof path, "%s/" CONTROL_SOCKET_NAME, f->directory);
    set_command(f, program, "report", path);
    start(f);
    finish(f);
    assert_int_equal(f->exit.exit_code, 0);
}

static void last_report_survives_unread_replies(void **state)
{
    struct fixture *f = *state;
    char reply[256];
    f->grant.ready = READY_CLIENT;
    set_shell(f, "sleep 1000");
    start(f);
    int agent = open_control(f), program = open_control(f);
    struct pollfd answered = {.fd = program, .events = POLLIN};
    assert_int_equal(send(program, "progress 1", 10, MSG_NOSIGNAL), 10);
    assert_int_equal(poll(&answered, 1, DEADLINE_MS), 1);
    assert_int_equal(kill(f->pid, SIGSTOP), 0); /* so that the last report waits in the socket */
    assert_int_equal(send(program, "ready", 5, MSG_NOSIGNAL), 5);
    close(program);
    assert_int_equal(kill(f->pid, SIGCONT), 0);
    wait_until(has_file(f, "ready"));
    assert_string_equal(command(agent, "kill", 4, reply), "ok");
    close(agent);
    finish(f);
}

static void programs_are_told_newest_advice(void **state)
{
    struct fixture *f = *state;
    char reply[256];
    set_shell(f, "sleep 1000");
    start(f);
    int agent = open_control(f), program = open_control(f);
    assert_string_equal(command(program, "advice 0 0", 10, reply), "ok 0 0 0");
    assert_string_equal(command(agent, "advise 7 64 2", 13, reply), "ok");
    assert_string_equal(command(agent, "advise 6 32 1", 13, reply), "ok"); /* came late */
    assert_string_equal(command(program, "advice 0 0", 10, reply), "ok 7 64 2");
    assert_string_equal(command(program, "advice 7 64\n", 12, reply), "ok 7 64 2");
    /* A new agent learns what was followed. */
    assert_string_equal(command(agent, "watch", 5, reply), "advice 7 64");
    assert_true(recv(agent, reply, sizeof reply, 0) == 2);
    assert_string_equal(command(program, "advice 7 48", 11, reply), "ok 7 64 2");
    assert_true(recv(agent, reply, sizeof reply, 0) == 11);
    assert_memory_equal(reply, "advice 7 48", 11);
    assert_string_equal(command(program, "advice 7", 8, reply), "error this is no command");
    assert_string_equal(command(program, "advise 1 2", 10, reply), "error this is no command");
    assert_string_equal(command(agent, "kill", 4, reply), "ok");
    close(agent);
    close(program);
    finish(f);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "supervise") == 0)
        return supervisor_main(argv[2]);
    if (argc == 3 && strcmp(argv[1], "report") == 0)
        return report_over_all(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, supervisor_setup, supervisor_teardown)
    const struct CMUnitTest tests[] = {
        CASE(new_connection_replaces_silent_one),
        CASE(last_report_survives_unread_replies),
        CASE(programs_are_told_newest_advice),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
