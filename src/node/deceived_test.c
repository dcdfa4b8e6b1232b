/* The agent against a user who removes and forges files, and keeps descriptors. */
#include "node/agent_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/durable.h"
#include "base/str.h"
#include "node/supervisor/attempt_file.h"
#include "node/supervisor/process.h"
#include "node/supervisor/supervisor.h"

/* The task names its supervisor in the file super1 of the top directory. */
static const char busy[] = "setsid sleep 1000 & echo $! > $TOP/child$GPUMUX_WORKLOAD_ID; "
                           "echo $PPID > $TOP/super$GPUMUX_WORKLOAD_ID; wait";

static pid_t read_pid(const struct fixture *f, const char *name)
{
    char text[256];
    wait_until(read_file(f, name, text));
    return (pid_t)strtol(text, NULL, 10);
}

static int open_under(const struct fixture *f, const char *path, int flags)
{
    char whole[192];
    snprintf(whole, sizeof whole, "%s/%s", f->directory, path);
    int fd = open(whole, flags | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void remove_path(const struct fixture *f, const char *path)
{
    char whole[192];
    snprintf(whole, sizeof whole, "%s/%s", f->directory, path);
    assert_int_equal(unlink(whole), 0);
}

/* Replaces record.json of attempt 1.1. */
static void forge_record(const struct fixture *f, const char *boot_id, pid_t pid)
{
    struct attempt_record record = {.supervisor_pid = pid,
                                    .supervisor_start = process_start(pid),
                                    .task_pid = pid,
                                    .task_start = process_start(pid),
                                    .started_wall_ms = 1};
    struct str text;
    assert_true(str_copy(record.boot_id, sizeof record.boot_id, boot_id));
    str_init(&text, ATTEMPT_EXIT_MAX);
    assert_int_equal(attempt_record_write(&record, &text), 0);
    int fd = open_under(f, "attempts/1.1", O_RDONLY | O_DIRECTORY);
    assert_int_equal(durable_replace(NULL, fd, "record.json", str_text(&text), text.length), 0);
    close(fd);
    str_done(&text);
}

/* Replaces the boot in the agent's own record of attempt 1.1. */
static void change_own_boot(const struct fixture *f)
{
    char text[32768], boot_id[BOOT_ID_MAX];
    int fd = open_under(f, "records/1.1", O_RDWR);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n > 0 && process_boot_id(boot_id));
    text[n] = '\0';
    char *at = strstr(text, boot_id);
    assert_non_null(at);
    *at = *at == 'x' ? 'y' : 'x';
    assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
    close(fd);
}

/* Runs a task with a background process, then leaves it without agent and supervisor. */
static pid_t abandon(struct fixture *f)
{
    start_agent(f);
    grant(f, 1, busy, "");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    pid_t child = read_pid(f, "child1"), supervisor = read_pid(f, "super1");
    kill_agent(f);
    kill(supervisor, SIGKILL);
    wait_until(is_dead(supervisor));
    return child;
}

static void removed_files_hide_no_attempt(void **state)
{
    struct fixture *f = *state;
    pid_t child = abandon(f);
    remove_path(f, "attempts/1.1/record.json");
    if (has_path(f, "attempts/1.1/exit.json"))
        remove_path(f, "attempts/1.1/exit.json");
    start_agent(f);
    assert_int_equal(f->msg.attempt_count, 1);
    const struct attempt_report *report = wait_phase(f, 1, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_SIGNAL);
    assert_false(report->never_ran);
    assert_true(report->started_wall_ms > 1);
    wait_until(is_dead(child));
}

static void forged_boot_hides_no_failure(void **state)
{
    struct fixture *f = *state;
    abandon(f);
    forge_record(f, "another", getpid());
    start_agent(f);
    const struct attempt_report *report = wait_phase(f, 1, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_SIGNAL);
    assert_non_null(strstr(report->text, "supervisor was killed"));
    assert_true(report->started_wall_ms > 1);
}

static void machine_restart_ends_attempt_without_failure(void **state)
{
    struct fixture *f = *state;
    abandon(f);
    change_own_boot(f);
    start_agent(f);
    const struct attempt_report *report = wait_phase(f, 1, ATTEMPT_EXITED);
    assert_int_equal(report->failure, FAILURE_NONE);
    assert_int_equal(report->signal, SIGKILL);
    assert_non_null(strstr(report->text, "restarted"));
}

/* A process that keeps a copy of the attempt's lock, as one of the same user can. */
static void kept_lock_hides_no_death(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 1; i <= 2; i++) {
        char name[32];
        bool without_agent = i == 2;
        if (i == 1)
            start_agent(f);
        grant(f, i, busy, "");
        wait_phase(f, i, ATTEMPT_RUNNING);
        snprintf(name, sizeof name, "super%d", (int)i);
        pid_t supervisor = read_pid(f, name);
        int pid_fd = (int)syscall(SYS_pidfd_open, supervisor, 0);
        int lock_fd = (int)syscall(SYS_pidfd_getfd, pid_fd, SUPERVISOR_LOCK_FD, 0);
        if (lock_fd < 0) {
            print_message("skipped: descriptors of another process cannot be copied here\n");
            skip();
        }
        if (without_agent)
            kill_agent(f);
        kill(supervisor, SIGKILL);
        wait_until(!without_agent || is_dead(supervisor));
        if (without_agent)
            start_agent(f);
        assert_int_equal(wait_phase(f, i, ATTEMPT_EXITED)->failure, FAILURE_SIGNAL);
        close(lock_fd);
        close(pid_fd);
    }
}

/* The agent's own record is lost, and record.json names a living stranger with its start time. */
static void named_stranger_is_left_alone(void **state)
{
    struct fixture *f = *state;
    start_agent(f);
    grant(f, 1, busy, "");
    wait_phase(f, 1, ATTEMPT_RUNNING);
    pid_t supervisor = read_pid(f, "super1"), stranger = fork();
    if (stranger == 0)
        for (fork();;)
            pause();
    kill_agent(f);
    remove_path(f, "records/1.1");
    remove_path(f, "attempts/1.1/control.sock"); /* so that the agent must send a signal */
    char boot_id[BOOT_ID_MAX];
    assert_true(process_boot_id(boot_id));
    forge_record(f, boot_id, stranger);
    start_agent(f);
    assert_int_equal(f->msg.attempt_count, 1);
    send_order(f, NODEMSG_STOP, 1, 0);
    assert_int_equal(wait_phase(f, 1, ATTEMPT_EXITED)->phase, ATTEMPT_EXITED);
    wait_until(is_dead(supervisor));
    size_t forks = 0;
    struct process_table table;
    assert_int_equal(process_table_read(&table), 0);
    for (size_t i = 0; i < table.count; i++)
        forks += table.items[i].parent == stranger && !table.items[i].zombie;
    assert_int_equal(forks, 1);
    assert_int_equal(process_signal_descendants(stranger, process_start(stranger), SIGKILL, NULL),
                     1);
    process_table_done(&table);
    assert_false(is_dead(stranger));
    kill(stranger, SIGKILL);
}

/* Supervisors that are stopped enforce neither time limit nor lease: the agent does. */
static void stopped_supervisor_disables_no_limit(void **state)
{
    struct fixture *f = *state;
    f->lease_ms = 3000;
    f->fence_ms = f->drain_ms = 100;
    start_agent(f);
    grant(f, 1, busy, ",\"grace\":\"0s\",\"time_limit\":\"2s\"");
    grant(f, 2, busy, ",\"grace\":\"0s\"");
    kill(read_pid(f, "super1"), SIGSTOP);
    kill(read_pid(f, "super2"), SIGSTOP);
    f->silent = true;
    for (size_t ended = 0; ended < 2;) {
        receive_type(f, NODEMSG_HELLO);
        ended = 0;
        for (size_t i = 0; i < f->msg.attempt_count; i++)
            ended += f->msg.attempts[i].phase == ATTEMPT_EXITED;
        if (ended < 2)
            hang_up(f);
    }
    for (size_t i = 0; i < 2; i++) {
        const struct attempt_report *report = &f->msg.attempts[i];
        assert_int_equal(report->failure, report->workload == 1 ? FAILURE_TIMEOUT : FAILURE_SIGNAL);
        assert_int_equal(report->verdict, report->workload == 1 ? VERDICT_OWN : VERDICT_MOVED);
        assert_non_null(strstr(report->text, report->workload == 1 ? "time limit" : "lease"));
    }
}

int main(int argc, char **argv)
{
    int status;
    if (fixture_main(argc, argv, &status))
        return status;
#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        CASE(removed_files_hide_no_attempt),
        CASE(forged_boot_hides_no_failure),
        CASE(machine_restart_ends_attempt_without_failure),
        CASE(kept_lock_hides_no_death),
        CASE(named_stranger_is_left_alone),
        CASE(stopped_supervisor_disables_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
