/*
 * Reports of a service's companion: times and notes. As `companion_test supervise DIRECTORY` the
 * program is a supervisor.
 */
#include <string.h>
#include <sys/socket.h>

#include "node/supervisor/control_socket.h"
#include "node/supervisor/supervisor.h"
#include "node/supervisor/supervisor_fixture.h"

static void each_kind_of_time_yields_its_notice(void **state)
{
    struct fixture *f = *state;
    struct control_latency latency;
    enum control_time time = CONTROL_TIMES;
    static const char *const reports[CONTROL_TIMES] = {"latency\n900 3", "first\n900 4",
                                                       "between\n900 5\n"};
    set_shell(f, "sleep 1000");
    start(f);
    wait_until(has_file(f, "ready"));
    int fd = open_control(f);
    assert_string_equal(command(fd, "watch", 5, f->text), "ok");
    for (int i = 0; i < CONTROL_TIMES; i++) {
        /* The notice precedes the reply. */
        command(fd, reports[i], strlen(reports[i]), f->text);
        assert_true(control_notice_parse_latency(f->text, &time, &latency));
        assert_int_equal(time, i);
        assert_int_equal(latency.requests_10s, 3 + i);
        assert_int_equal(recv(fd, f->text, TEXT_MAX, 0), 2);
    }
    close(fd);
}

static void note_becomes_line_of_output(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 1000");
    start(f);
    int fd = open_control(f);
    assert_string_equal(command(fd, "note\n", 5, f->text), "error this is no sentence");
    assert_string_equal(command(fd, "note\na\nb", 8, f->text), "error this is no sentence");
    assert_string_equal(command(fd, "note\nno histogram", 17, f->text), "ok");
    assert_string_equal(command(fd, "kill", 4, f->text), "ok");
    close(fd);
    finish(f);
    assert_string_equal(untimed_log(f), "stderr F gpumux: no histogram\n");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "supervise") == 0)
        return supervisor_main(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, supervisor_setup, supervisor_teardown)
    const struct CMUnitTest tests[] = {
        CASE(each_kind_of_time_yields_its_notice),
        CASE(note_becomes_line_of_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
