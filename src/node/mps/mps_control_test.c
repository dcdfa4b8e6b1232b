/* Requests to an MPS daemon, and trimming of its logs, however it writes them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/durable.h"
#include "node/mps/mps_control.h"

enum { LINE = 64, LINES = MPS_LOG_MAX / LINE, FEW = 10, LIMIT_MS = 60000 };

struct fixture {
    struct mps_control control;
    char program[MPS_PATH_MAX + 32], log[MPS_PATH_MAX + 32], kept[MPS_PATH_MAX + 32];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->control.directory, sizeof f->control.directory, "/tmp/gpumux-logs-XXXXXX");
    assert_non_null(mkdtemp(f->control.directory));
    snprintf(f->log, sizeof f->log, "%s/control.log", f->control.directory);
    snprintf(f->kept, sizeof f->kept, "%s/control.log.old", f->control.directory);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    durable_remove_tree(NULL, AT_FDCWD, f->control.directory);
    free(f);
    return 0;
}

/* Writes numbered lines as a daemon does. */
static void say(int fd, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        char line[LINE + 1];
        snprintf(line, sizeof line, "%0*d\n", LINE - 1, i);
        assert_int_equal(write(fd, line, LINE), LINE);
    }
}

static off_t held_by(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_blocks * 512;
}

static void expect_end(const char *path, int line)
{
    struct stat st;
    char text[LINE + 1] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, text, LINE, st.st_size - LINE), LINE);
    assert_int_equal(strtol(text, NULL, 10), line);
    close(fd);
}

static void trim_as_written(struct fixture *f, int flags)
{
    int fd = open(f->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);
    assert_true(fd >= 0);
    say(fd, 0, LINES / 2);
    mps_control_trim_logs(&f->control);
    assert_true(held_by(f->log) >= MPS_LOG_MAX / 2);
    assert_int_equal(access(f->kept, F_OK), -1);
    for (int round = 1; round <= 3; round++) { /* also with a hole */
        say(fd, round * LINES, LINES + FEW);
        mps_control_trim_logs(&f->control);
        assert_int_equal(held_by(f->log), 0);
        expect_end(f->kept, round * LINES + LINES + FEW - 1);
        assert_true(held_by(f->kept) <= MPS_LOG_MAX / 2);
        say(fd, 0, FEW);
        mps_control_trim_logs(&f->control);
        expect_end(f->log, FEW - 1); /* little content, at any offset */
        expect_end(f->kept, round * LINES + LINES + FEW - 1);
    }
    close(fd);
}

static void appended_log_is_trimmed(void **state)
{
    trim_as_written(*state, O_APPEND);
}

static void log_without_append_is_trimmed(void **state)
{
    trim_as_written(*state, 0);
}

static void log_trim_follows_no_links(void **state)
{
    struct fixture *f = *state;
    char other[MPS_PATH_MAX + 32];
    snprintf(other, sizeof other, "%s/other", f->control.directory);
    int fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    say(fd, 0, LINES + FEW);
    close(fd);
    assert_int_equal(symlink("other", f->log), 0);
    mps_control_trim_logs(&f->control);
    expect_end(other, LINES + FEW - 1);
}

/* Makes a script that acts as the control program. */
static void make_program(struct fixture *f, const char *does)
{
    snprintf(f->program, sizeof f->program, "%s/nvidia-cuda-mps-control", f->control.directory);
    FILE *file = fopen(f->program, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", does);
    assert_int_equal(fchmod(fileno(file), 0755), 0);
    assert_int_equal(fclose(file), 0);
    f->control.program = f->program;
}

static int ask(struct fixture *f, struct error *e)
{
    return mps_control_ask(e, &f->control, "get_server_list", LIMIT_MS, NULL);
}

static void failed_query_is_not_daemon_failure(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    f->control.program = "/nonexist";
    assert_int_equal(ask(f, &e), -ERR_IO);
    assert_int_equal(mps_control_start(&e, &f->control, LIMIT_MS), -ERR_IO);
    assert_string_equal(e.text, "/nonexist cannot be run: No such file or directory");
    make_program(f, "kill -KILL $$");
    assert_int_equal(ask(f, &e), -ERR_IO);
    make_program(f, "exit 1");
    assert_int_equal(ask(f, &e), -ERR_UNAVAILABLE);
    make_program(f, "exit 0");
    assert_int_equal(ask(f, &e), 0);
}

/* The test leaves every number of descriptors: too few for the pipes, or too few to wait for the
 * program's end. */
static void query_without_descriptors_returns_io_error(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    struct rlimit before, few;
    int taken[FEW], count = 0, r = -ERR_IO;
    make_program(f, "exit 0");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    taken[count++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    few = (struct rlimit){.rlim_cur = (rlim_t)taken[0] + FEW, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (count < FEW && (taken[count] = fcntl(taken[0], F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    for (int left = 0; r < 0 && count > 0; left++) {
        r = ask(f, &e);
        assert_true(r == -ERR_IO || (r == 0 && left > 0));
        close(taken[--count]);
    }
    assert_int_equal(r, 0);
    while (count > 0)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Checks that the program's child was killed; its shell may have seen that before it was killed
 * too. */
static void expect_killed(pid_t pid)
{
    int status;
    assert_true(pid > 1);
    if (waitpid(pid, &status, 0) == pid)
        assert_true(WIFSIGNALED(status));
    else
        assert_int_equal(kill(pid, 0), -1);
}

static pid_t started_by(const struct fixture *f)
{
    char path[MPS_PATH_MAX + 32], text[32] = "";
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", f->control.directory);
    FILE *file = fopen(path, "re");
    if (file) {
        (void)!fgets(text, sizeof text, file);
        fclose(file);
    }
    return (pid_t)strtol(text, NULL, 10);
}

static void failed_start_leaves_no_daemon(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    char does[4 * MPS_PATH_MAX];
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    /* A daemon that never answers, and is known by its file. */
    snprintf(does, sizeof does,
             "case $1 in\n"
             "-d) $0 serve > /dev/null 2>&1 & echo $! > %s/nvidia-cuda-mps-control.pid;;\n"
             "serve) for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done;;\n"
             "*) exit 1;; esac",
             f->control.directory);
    make_program(f, does);
    assert_int_equal(mps_control_start(&e, &f->control, LIMIT_MS), -ERR_UNAVAILABLE);
    expect_killed(started_by(f));
    /* A daemon that is not known yet, of a program that takes too long. */
    snprintf(does, sizeof does,
             "sleep 10 > /dev/null 2>&1 & echo $! > %s/nvidia-cuda-mps-control.pid; wait",
             f->control.directory);
    make_program(f, does);
    pid_t before = started_by(f);
    for (int limit_ms = 500; started_by(f) == before && limit_ms < LIMIT_MS; limit_ms *= 2)
        assert_int_equal(mps_control_start(&e, &f->control, limit_ms), -ERR_UNAVAILABLE);
    expect_killed(started_by(f));
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* Starts a process that runs for a minute, as a program for this directory. */
static pid_t start_for(const char *program, const char *directory)
{
    char variable[MPS_PATH_MAX + 32];
    char *const arguments[] = {(char[]){"program"}, (char[]){"60"}, NULL};
    char *const environment[] = {(char[]){"PATH=/usr/bin:/bin"}, variable, NULL};
    pid_t pid;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(variable, sizeof variable, "CUDA_MPS_PIPE_DIRECTORY=%s", directory);
    assert_int_equal(mps_control_spawn(program, arguments, environment, null_fd, null_fd, &pid), 0);
    close(null_fd);
    return pid;
}

static void end_process(pid_t pid)
{
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* not ended */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void daemon_kill_spares_other_processes(void **state)
{
    struct fixture *f = *state;
    char parent[MPS_PATH_MAX], directories[4][MPS_PATH_MAX];
    make_program(f, "while :; do sleep 0.05; done");
    str_copy(parent, sizeof parent, f->control.directory);
    snprintf(f->control.directory, sizeof f->control.directory, "%.64s/one", parent);
    char other[MPS_PATH_MAX], further[MPS_PATH_MAX];
    snprintf(other, sizeof other, "%.64s/other", parent);
    snprintf(further, sizeof further, "%.64s/one/one", parent);
    pid_t own = start_for(f->program, f->control.directory);
    pid_t second = start_for(f->program, f->control.directory);
    pid_t others = start_for(f->program, other);
    pid_t below = start_for(f->program, further);
    pid_t client = start_for("/bin/sleep", f->control.directory);
    /* The directories need not exist. */
    while (mps_control_running(parent, directories, 4) < 2)
        ;
    assert_int_equal(mps_control_running(parent, directories, 4), 2);
    assert_int_equal(mps_control_running(f->control.directory, directories, 4), 1);
    assert_string_equal(directories[0], further);
    mps_control_kill(&f->control);
    expect_killed(own);
    expect_killed(second);
    end_process(others);
    end_process(below);
    end_process(client);
    assert_int_equal(mps_control_running(parent, directories, 4), 0);
    str_copy(f->control.directory, sizeof f->control.directory, parent);
}

static void daemon_directory_is_found_through_links(void **state)
{
    struct fixture *f = *state;
    char link[MPS_PATH_MAX + 8], there[MPS_PATH_MAX + 16], directories[2][MPS_PATH_MAX];
    snprintf(link, sizeof link, "%s-link", f->control.directory);
    snprintf(there, sizeof there, "%s/part", link);
    assert_int_equal(symlink(f->control.directory, link), 0);
    make_program(f, "while :; do sleep 0.05; done");
    pid_t pid = start_for(f->program, there);
    while (mps_control_running(f->control.directory, directories, 2) < 1)
        ;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    unlink(link);
}

static void stop_interrupts_query(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    const uint64_t one = 1;
    make_program(f, "exec sleep 60");
    f->control.stop_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(write(f->control.stop_fd, &one, sizeof one), sizeof one);
    assert_int_equal(ask(f, &e), -ERR_TIMEOUT);
    assert_int_equal(mps_control_start(&e, &f->control, LIMIT_MS), -ERR_UNAVAILABLE);
    close(f->control.stop_fd);
    f->control.stop_fd = 0;
}

/* Runs a daemon until the file t/quit exists, which answers or not. */
static void end_daemon(struct fixture *f, const char *answer)
{
    char does[4 * MPS_PATH_MAX];
    snprintf(does, sizeof does,
             "case $1 in\n"
             "-d|60) while [ ! -e %s/quit ]; do sleep 0.02; done; exit 0;;\n"
             "*) read line; [ \"$line\" != 'quit -t 1' ] || : > %s/quit; %s;; esac",
             f->control.directory, f->control.directory, answer);
    make_program(f, does);
    pid_t pid = start_for(f->program, f->control.directory);
    char directories[1][MPS_PATH_MAX], parent[MPS_PATH_MAX] = "/tmp";
    while (mps_control_running(parent, directories, 1) < 1)
        ;
    mps_control_end(&f->control, LIMIT_MS);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status)); /* exited, not killed */
}

static void only_healthy_daemon_end_is_noted(void **state)
{
    struct fixture *f = *state;
    struct error e = {0};
    char quit[MPS_PATH_MAX + 8];
    snprintf(quit, sizeof quit, "%s/quit", f->control.directory);
    assert_false(mps_control_was_ended(&f->control));
    end_daemon(f, "exit 0");
    assert_true(mps_control_was_ended(&f->control));
    assert_int_equal(mps_control_start(&e, &f->control, LIMIT_MS), 0);
    assert_false(mps_control_was_ended(&f->control)); /* note of the earlier daemon */
    unlink(quit);
    end_daemon(f, "exit 1");
    assert_false(mps_control_was_ended(&f->control));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(appended_log_is_trimmed),
        CASE(log_without_append_is_trimmed),
        CASE(log_trim_follows_no_links),
        CASE(failed_query_is_not_daemon_failure),
        CASE(query_without_descriptors_returns_io_error),
        CASE(failed_start_leaves_no_daemon),
        CASE(daemon_kill_spares_other_processes),
        CASE(daemon_directory_is_found_through_links),
        CASE(stop_interrupts_query),
        CASE(only_healthy_daemon_end_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
