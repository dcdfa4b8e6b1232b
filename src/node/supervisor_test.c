/*
 * The supervisor alone, as the agent would start it. This program is its own `gpumux`: called as
 * `supervisor_test supervise DIRECTORY` it is one.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "node/attempt_file.h"
#include "node/control_socket.h"
#include "base/durable.h"
#include "node/output.h"
#include "node/process.h"
#include "node/supervisor.h"

enum { DEADLINE_MS = 30000, TEXT_MAX = 1 << 20 };

struct fixture {
    char top[64], directory[96];
    int directory_fd;
    pid_t pid;     /* the supervisor's; 0: none */
    int lock_fd;   /* another open file of its lock */
    int lease_fd;  /* -1: none */
    int cgroup_fd; /* -1: none */
    int started_fd;
    struct attempt_grant grant;
    struct words command;
    const char *words[8];
    char mark[64]; /* of this test alone: another run beside it must not find our processes */
    const char *environment[8];
    struct attempt_report exit;
    char *text; /* of the last read */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->top, sizeof f->top, "/tmp/gpumux-supervisor-XXXXXX");
    assert_non_null(mkdtemp(f->top));
    snprintf(f->directory, sizeof f->directory, "%s/17.1", f->top);
    assert_int_equal(mkdir(f->directory, 0700), 0);
    f->directory_fd = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->lease_fd = f->cgroup_fd = f->started_fd = -1;
    f->text = malloc(TEXT_MAX);
    f->environment[0] = "PATH=/usr/bin:/bin";
    snprintf(f->mark, sizeof f->mark, "GPUMUX_MARK=%s/17.1", f->top + strlen("/tmp/"));
    f->environment[1] = f->mark;
    f->grant = (struct attempt_grant){.workload = 17,
                                      .attempt = 1,
                                      .environment = {.count = 2, .items = f->environment},
                                      .directory = "/",
                                      .grace_ms = 20000,
                                      .log_file_bytes = 1 << 20,
                                      .log_files = 4};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->pid) {
        kill(f->pid, SIGKILL);
        waitpid(f->pid, NULL, 0);
    }
    close(f->directory_fd);
    durable_remove_tree(NULL, AT_FDCWD, f->top);
    if (f->lease_fd >= 0)
        close(f->lease_fd);
    if (f->lock_fd > 0)
        close(f->lock_fd);
    if (f->started_fd >= 0)
        close(f->started_fd);
    free(f->text);
    free(f);
    return 0;
}

static void set_command(struct fixture *f, const char *word, const char *option, const char *text)
{
    f->words[0] = word;
    f->words[1] = option;
    f->words[2] = text;
    f->grant.command = (struct words){.count = option ? 3 : 1, .items = f->words};
}

static void set_shell(struct fixture *f, const char *script)
{
    set_command(f, "sh", "-c", script);
}

/* Puts the descriptors where a supervisor looks for them, and becomes one. */
static _Noreturn void become_supervisor(const struct fixture *f, int lock_fd, int started_fd)
{
    int wanted[] = {lock_fd, f->lease_fd, f->cgroup_fd, started_fd};
    for (int i = 0; i < 4; i++)
        wanted[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD, 20);
    for (int i = 0; i < 4; i++) {
        close(3 + i);
        if (wanted[i] >= 0)
            dup2(wanted[i], 3 + i);
    }
    close_range(7, ~0U, 0);
    execl("/proc/self/exe", "gpumux", "supervise", f->directory, (char *)NULL);
    _exit(99);
}

static void start(struct fixture *f)
{
    struct str text;
    str_init(&text, ATTEMPT_FILE_MAX);
    assert_int_equal(attempt_grant_write(&f->grant, &text), 0);
    assert_int_equal(
        durable_write(NULL, f->directory_fd, "grant.json", str_text(&text), text.length), 0);
    str_done(&text);
    char lock[96];
    snprintf(lock, sizeof lock, "%s/lock", f->top);
    int lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
    f->lock_fd = open(lock, O_RDWR | O_CLOEXEC);
    int started[2];
    assert_int_equal(pipe2(started, O_CLOEXEC), 0);
    f->pid = fork();
    if (f->pid == 0)
        become_supervisor(f, lock_fd, started[1]);
    close(lock_fd);
    close(started[1]);
    f->started_fd = started[0];
}

static bool has_file(const struct fixture *f, const char *name)
{
    struct stat st;
    return fstatat(f->directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Waits for a condition; the test fails if it does not come. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t deadline_ms = clock_boot_ms() + DEADLINE_MS;                                       \
        while (!(condition)) {                                                                     \
            assert_true(clock_boot_ms() < deadline_ms);                                            \
            usleep(2000);                                                                          \
        }                                                                                          \
    } while (0)

static struct attempt_record wait_record(struct fixture *f)
{
    wait_until(has_file(f, "record.json"));
    struct str text;
    struct attempt_record record;
    str_init(&text, ATTEMPT_EXIT_MAX);
    assert_int_equal(durable_read(NULL, f->directory_fd, "record.json", getuid(), &text), 0);
    assert_int_equal(attempt_record_parse(NULL, str_text(&text), text.length, &record), 0);
    str_done(&text);
    return record;
}

/* Waits for the supervisor's end and reads what it left. */
static void finish(struct fixture *f)
{
    int status;
    wait_until(waitpid(f->pid, &status, WNOHANG) == f->pid);
    f->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    struct str text;
    str_init(&text, ATTEMPT_EXIT_MAX);
    assert_int_equal(durable_read(NULL, f->directory_fd, "exit.json", getuid(), &text), 0);
    assert_int_equal(attempt_exit_parse(NULL, str_text(&text), text.length, &f->exit), 0);
    str_done(&text);
    assert_int_equal(f->exit.workload, 17);
    assert_int_equal(f->exit.attempt, 1);
}

static size_t read_log(struct fixture *f, uint64_t offset)
{
    struct output_slice slice;
    assert_int_equal(
        output_read(NULL, f->directory_fd, getuid(), offset, f->text, TEXT_MAX - 1, &slice), 0);
    f->text[slice.length] = '\0';
    return slice.length;
}

/* The log's lines without their times: "stdout F hello\n…", in place. */
static const char *untimed_log(struct fixture *f)
{
    size_t length = read_log(f, 0);
    char *to = f->text;
    for (char *line = f->text; line < f->text + length;) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        assert_true(end - line > 31 && line[29] == 'Z' && line[30] == ' ');
        size_t rest = (size_t)(end + 1 - (line + 31));
        memmove(to, line + 31, rest);
        to += rest;
        line = end + 1;
    }
    *to = '\0';
    return f->text;
}

static int open_control(struct fixture *f)
{
    int fd = -1;
    wait_until(control_socket_connect(NULL, f->directory_fd, getuid(), &fd) == 0);
    fcntl(fd, F_SETFL, 0);
    return fd;
}

/* Sends one packet and reads the reply. */
static const char *command(int fd, const char *packet, size_t length, char reply[256])
{
    assert_int_equal(send(fd, packet, length, MSG_NOSIGNAL), (ssize_t)length);
    ssize_t n = recv(fd, reply, 255, 0);
    assert_true(n > 0);
    reply[n] = '\0';
    return reply;
}

static bool is_dead(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* A pid that the script wrote to a file under the top directory. */
static pid_t read_pid(struct fixture *f, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->top, name);
    int pid = 0;
    int64_t deadline_ms = clock_boot_ms() + DEADLINE_MS;
    while (pid == 0 && clock_boot_ms() < deadline_ms) {
        FILE *file = fopen(path, "r");
        char line[32];
        if (file && fgets(line, sizeof line, file) && strchr(line, '\n'))
            pid = (int)strtol(line, NULL, 10);
        if (file)
            fclose(file);
        usleep(2000);
    }
    assert_true(pid > 0);
    return pid;
}

/* ---- how it ends ---- */

static void test_exit_codes(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "exit 0");
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_NONE);
    assert_int_equal(f->exit.exit_code, 0);
    assert_false(f->exit.never_ran);
    assert_true(f->exit.started_wall_ms > 0 && f->exit.ended_wall_ms >= f->exit.started_wall_ms);
    assert_true(has_file(f, "ready"));
}

static void test_exit_code_of_failure(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "exit 7");
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_EXIT);
    assert_int_equal(f->exit.exit_code, 7);
}

static void test_signal(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "kill -USR1 $$");
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_SIGNAL);
    assert_int_equal(f->exit.signal, SIGUSR1);
    assert_int_equal(f->exit.exit_code, -1);
}

static void test_command_not_found(void **state)
{
    struct fixture *f = *state;
    set_command(f, "no-such-command", NULL, NULL);
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_START);
    assert_true(f->exit.never_ran);
    assert_string_equal(f->exit.text, "command 'no-such-command' not found in PATH");
    assert_false(has_file(f, "ready"));
}

static void test_directory_missing(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "exit 0");
    f->grant.directory = "/no/such/directory";
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_START);
    assert_true(f->exit.never_ran);
    assert_non_null(strstr(f->exit.text, "directory '/no/such/directory'"));
}

static void test_corrupt_grant(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "exit 0");
    start(f);
    finish(f);
    /* A second one in the same directory must not start: its socket is there. */
    start(f);
    int status;
    wait_until(waitpid(f->pid, &status, WNOHANG) == f->pid);
    f->pid = 0;
    assert_int_equal(WEXITSTATUS(status), 1);
    ssize_t n = read(f->started_fd, f->text, TEXT_MAX - 1);
    assert_true(n > 0);
    f->text[n] = '\0';
    assert_non_null(strstr(f->text, "control.sock"));
}

static void test_time_limit(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap 'exit 0' TERM; while :; do sleep 0.01; done");
    f->grant.time_limit_ms = 200;
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_TIMEOUT);
    assert_true(f->exit.ended_wall_ms - f->exit.started_wall_ms >= 200);
    assert_non_null(strstr(f->exit.text, "time limit"));
}

/* ---- what it gets ---- */

static void test_environment(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "env | grep -v -e ^PWD -e ^SHLVL -e ^_; ls /proc/self/fd | wc -l; umask; "
                 "cat; ps -o sid= -p $$ >/dev/null 2>&1; read -r a < /proc/$$/stat; "
                 "set -- $a; [ $1 = $6 ] && echo leads");
    start(f);
    finish(f);
    /* ls itself opens the directory: 0, 1, 2 and 3. */
    char expected[256];
    snprintf(expected, sizeof expected,
             "stdout F PATH=/usr/bin:/bin\nstdout F %s\nstdout F 4\nstdout F 0077\n"
             "stdout F leads\n",
             f->mark);
    assert_string_equal(untimed_log(f), expected);
}

static void test_record_before_exec(void **state)
{
    struct fixture *f = *state;
    char script[256];
    snprintf(script, sizeof script, "cat %s/record.json", f->directory);
    set_shell(f, script);
    start(f);
    struct attempt_record record = wait_record(f);
    char boot_id[BOOT_ID_MAX];
    assert_true(process_boot_id(boot_id));
    assert_string_equal(record.boot_id, boot_id);
    assert_int_equal(record.supervisor_pid, f->pid);
    assert_true(record.supervisor_start > 0 && record.task_start >= record.supervisor_start);
    finish(f);
    assert_int_equal(f->exit.exit_code, 0);
    char pid[32];
    snprintf(pid, sizeof pid, "\"task_pid\":%d", record.task_pid);
    assert_non_null(strstr(untimed_log(f), pid));
}

static void test_input(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "cat");
    f->grant.wants_stdin = true;
    start(f);
    int fd = open_control(f);
    char reply[256];
    assert_string_equal(command(fd, "input 0 0\nhello ", 16, reply), "ok 6");
    assert_string_equal(command(fd, "input 0 0\nhello ", 16, reply), "ok 6");
    assert_string_equal(command(fd, "input 3 0\nlo wor", 16, reply), "ok 9");
    assert_string_equal(command(fd, "input 12 0\nx", 12, reply),
                        "error input is missing from byte 9 on");
    assert_string_equal(command(fd, "input 9 1\nld\n", 13, reply), "ok 12");
    close(fd);
    finish(f);
    assert_int_equal(f->exit.exit_code, 0);
    assert_string_equal(untimed_log(f), "stdout F hello world\n");
}

static void test_input_is_bounded(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 1000");
    f->grant.wants_stdin = true;
    start(f);
    int fd = open_control(f);
    char reply[256], *packet = calloc(1, CONTROL_PACKET_MAX);
    uint64_t taken = 0;
    for (int i = 0; i < 8; i++) { /* the pipe's 64 KiB and the buffer's 64 KiB, then no more */
        int head = snprintf(packet, 64, "input %" PRIu64 " 0\n", taken);
        command(fd, packet, (size_t)head + CONTROL_DATA_MAX, reply);
        assert_int_equal(sscanf(reply, "ok %" SCNu64, &taken), 1);
    }
    assert_in_range(taken, 64 << 10, 192 << 10);
    free(packet);
    assert_string_equal(command(fd, "kill", 4, reply), "ok");
    close(fd);
    finish(f);
    assert_int_equal(f->exit.signal, SIGKILL);
}

/* ---- output ---- */

static void test_output_streams(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "echo one; echo two >&2; sleep 0.05; echo three; printf end");
    start(f);
    finish(f);
    const char *log = untimed_log(f);
    assert_non_null(strstr(log, "stdout F one\n"));
    assert_non_null(strstr(log, "stderr F two\n"));
    assert_non_null(strstr(log, "stdout F three\nstdout P end\n"));
}

static void test_output_partial_after_pause(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "printf 'name? '; sleep 1000");
    start(f);
    wait_until(read_log(f, 0) > 0);
    assert_string_equal(untimed_log(f), "stdout P name? \n");
    kill(f->pid, SIGTERM);
    finish(f);
    assert_int_equal(f->exit.signal, SIGTERM);
}

static void test_output_long_line(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "head -c 40000 /dev/zero | tr '\\0' x; echo");
    start(f);
    finish(f);
    const char *log = untimed_log(f);
    assert_true(str_starts_with(log, "stdout P xxx"));
    size_t count = 0, lines = 0;
    for (const char *c = log; *c; c++) {
        count += *c == 'x';
        lines += *c == '\n';
    }
    assert_int_equal(count, 40000);
    assert_true(lines >= 3);
    assert_true(str_starts_with(strrchr(log, ' ') - 8, "stdout F"));
}

static void test_output_rotation(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done");
    f->grant.log_file_bytes = 4096;
    f->grant.log_files = 3;
    start(f);
    finish(f);
    assert_true(output_disk_bytes(f->directory_fd) <= 3 * 4096);
    /* Asked for the beginning, it answers from the first byte kept: the begin of a line. */
    struct output_slice slice;
    assert_int_equal(output_read(NULL, f->directory_fd, getuid(), 0, f->text, TEXT_MAX - 1, &slice),
                     0);
    f->text[slice.length] = '\0';
    assert_true(slice.offset > 0);
    int first = 0;
    assert_int_equal(sscanf(f->text + 31, "stdout F line %d", &first), 1);
    /* Offsets count the whole stream: each line is 31 + 9 + 5 bytes, its digits and a newline. */
    uint64_t bytes = 0;
    for (int i = 0; i < first; i++)
        bytes += 31 + 9 + 5 + 1 + (i > 99 ? 3U : i > 9 ? 2U : 1U);
    assert_int_equal(bytes, slice.offset);
    assert_true(str_starts_with(f->text + slice.length - 9, "line 999\n"));
    /* From the middle of what is kept, it goes on over the files' borders. */
    char *half = strdup(f->text + 5000);
    assert_true(read_log(f, slice.offset + 5000) == slice.length - 5000);
    assert_string_equal(f->text, half);
    free(half);
    assert_int_equal(read_log(f, slice.offset + slice.length), 0);
}

static void test_output_full_disk(void **state)
{
    struct fixture *f = *state;
    char script[256];
    snprintf(script, sizeof script,
             "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo > %s/done",
             f->top);
    set_shell(f, script);
    /* A limit on file sizes fails like a full disk, for the supervisor and its task alone. */
    struct rlimit old, tight = {.rlim_cur = 16 << 10, .rlim_max = RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    start(f);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    finish(f);
    assert_int_equal(f->exit.exit_code, 0);
    char done[96];
    snprintf(done, sizeof done, "%s/done", f->top);
    assert_int_equal(access(done, F_OK), 0);
    const char *log = untimed_log(f);
    assert_true(str_starts_with(log, "stdout F line 0\n"));
    assert_int_equal(log[strlen(log) - 1], '\n');
}

/* ---- stopping ---- */

static void test_stop_with_grace(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done");
    start(f);
    wait_until(read_log(f, 0) > 0);
    int fd = open_control(f);
    char reply[256];
    assert_string_equal(command(fd, "stop 20000", 10, reply), "ok");
    close(fd);
    finish(f);
    assert_int_equal(f->exit.exit_code, 3);
    assert_non_null(strstr(untimed_log(f), "stdout F bye\n"));
}

static void test_stop_is_enforced(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap '' TERM; echo up; while :; do sleep 0.01; done");
    start(f);
    wait_until(read_log(f, 0) > 0);
    int fd = open_control(f);
    char reply[256];
    int64_t before_ms = clock_boot_ms();
    assert_string_equal(command(fd, "stop 300", 8, reply), "ok");
    close(fd);
    finish(f);
    assert_int_equal(f->exit.signal, SIGKILL);
    assert_true(clock_boot_ms() - before_ms >= 300);
}

static void test_signal_command(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap 'exit 9' USR1; echo up; while :; do sleep 0.01; done");
    start(f);
    wait_until(read_log(f, 0) > 0);
    int fd = open_control(f);
    char reply[256];
    assert_string_equal(command(fd, "bogus", 5, reply), "error this is no command");
    assert_string_equal(command(fd, "signal 10", 9, reply), "ok");
    close(fd);
    finish(f);
    assert_int_equal(f->exit.exit_code, 9);
}

/* What a task leaves behind in sessions of its own ends with it. */
static void leave_behind(struct fixture *f)
{
    char script[512];
    snprintf(script, sizeof script,
             "setsid sh -c 'trap \"\" TERM; (setsid sh -c \"echo \\$\\$ > %s/deep; exec sleep "
             "1000\" &) ; echo $$ > %s/stubborn; while :; do sleep 1; done' & "
             "while ! [ -s %s/deep ] || ! [ -s %s/stubborn ]; do sleep 0.01; done; exit 5",
             f->top, f->top, f->top, f->top);
    f->grant.grace_ms = 100;
    set_shell(f, script);
    start(f);
    pid_t stubborn = read_pid(f, "stubborn"), deep = read_pid(f, "deep");
    finish(f);
    assert_int_equal(f->exit.exit_code, 5);
    wait_until(is_dead(stubborn) && is_dead(deep));
}

static void test_descendants_end(void **state)
{
    leave_behind(*state);
}

/* The place of the cgroup2 hierarchy, if this process may make groups there. */
static bool find_cgroup(char path[256])
{
    FILE *mounts = fopen("/proc/self/mounts", "r");
    char line[1024], root[200], type[64];
    bool found = false;
    while (mounts && !found && fgets(line, sizeof line, mounts))
        if (sscanf(line, "%*s %199s %63s", root, type) == 2 && strcmp(type, "cgroup2") == 0) {
            snprintf(path, 256, "%s/gpumux-test-%d", root, getpid());
            found = mkdir(path, 0755) == 0;
        }
    if (mounts)
        fclose(mounts);
    return found;
}

static void test_descendants_end_by_cgroup(void **state)
{
    struct fixture *f = *state;
    char path[256], task[280];
    if (!find_cgroup(path)) {
        print_message("skipped: no cgroup v2 hierarchy is writable here\n");
        skip();
    }
    snprintf(task, sizeof task, "%s/task", path);
    assert_int_equal(mkdir(task, 0755), 0);
    f->cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    leave_behind(f);
    close(f->cgroup_fd);
    wait_until(rmdir(task) == 0); /* only an empty one can be removed */
    assert_int_equal(rmdir(path), 0);
}

static void test_killed_supervisor_ends_task(void **state)
{
    struct fixture *f = *state;
    char script[256];
    snprintf(script, sizeof script, "sleep 1000 & echo $! > %s/child; wait", f->top);
    set_shell(f, script);
    start(f);
    struct attempt_record record = wait_record(f);
    pid_t child = read_pid(f, "child");
    assert_true(flock(f->lock_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
    kill(f->pid, SIGKILL);
    waitpid(f->pid, NULL, 0);
    f->pid = 0;
    wait_until(is_dead(record.task_pid) || process_start(record.task_pid) != record.task_start);
    wait_until(flock(f->lock_fd, LOCK_EX | LOCK_NB) == 0);
    assert_false(has_file(f, "exit.json"));
    /* Its children are for the agent to find. */
    assert_false(is_dead(child));
    assert_true(process_kill_marked(f->mark) >= 1);
    wait_until(is_dead(child));
    assert_int_equal(process_kill_marked(f->mark), 0);
}

/* ---- the lease ---- */

static _Atomic uint64_t *make_lease(struct fixture *f, int64_t deadline_ms)
{
    char path[96];
    snprintf(path, sizeof path, "%s/lease", f->top);
    f->lease_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    uint64_t value = (uint64_t)deadline_ms;
    assert_int_equal(pwrite(f->lease_fd, &value, sizeof value, 0), sizeof value);
    void *page = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, f->lease_fd, 0);
    assert_true(page != MAP_FAILED);
    return page;
}

static void test_lease_ends_task(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done");
    f->grant.fence_ms = 100;
    f->grant.drain_ms = 200;
    int64_t deadline_ms = clock_boot_ms() + 2000; /* a start takes less, also on a busy machine */
    _Atomic uint64_t *lease = make_lease(f, deadline_ms);
    start(f);
    /* Extended in time, it holds. */
    deadline_ms += 400;
    *lease = (uint64_t)deadline_ms;
    finish(f);
    assert_true(clock_boot_ms() >= deadline_ms + 100 + 200);
    assert_int_equal(f->exit.failure, FAILURE_NONE);
    assert_int_equal(f->exit.signal, SIGKILL);
    assert_non_null(strstr(f->exit.text, "its lease ended"));
    munmap((void *)(uintptr_t)lease, 8);
}

static void test_lease_spares_services(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 0.3; exit 4");
    f->grant.service = true;
    _Atomic uint64_t *lease = make_lease(f, 0);
    start(f);
    finish(f);
    assert_int_equal(f->exit.exit_code, 4);
    munmap((void *)(uintptr_t)lease, 8);
}

/* ---- readiness ---- */

static void test_ready_by_command(void **state)
{
    struct fixture *f = *state;
    char path[96];
    snprintf(path, sizeof path, "%s/warm", f->top);
    const char *probe[] = {"test", "-e", path, NULL};
    set_shell(f, "sleep 1000");
    f->grant.service = true;
    f->grant.ready = READY_COMMAND;
    f->grant.ready_command = (struct words){.count = 3, .items = probe};
    start(f);
    int fd = open_control(f);
    char reply[256];
    assert_string_equal(command(fd, "watch", 5, reply), "ok");
    assert_false(has_file(f, "ready"));
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ssize_t n = recv(fd, reply, sizeof reply, 0);
    assert_int_equal(n, strlen("changed"));
    assert_true(has_file(f, "ready"));
    assert_string_equal(command(fd, "kill", 4, reply), "ok");
    close(fd);
    finish(f);
}

static void test_ready_by_client(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 1000");
    f->grant.service = true;
    f->grant.ready = READY_CLIENT;
    start(f);
    int fd = open_control(f);
    char reply[256];
    /* Before the exec it is too early to be ready: the word is repeated until it counts. */
    wait_until(str_equal(command(fd, "ready", 5, reply), "ok") && has_file(f, "ready"));
    assert_string_equal(command(fd, "kill", 4, reply), "ok");
    close(fd);
    finish(f);
}

static void test_progress(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 1000");
    start(f);
    wait_until(has_file(f, "ready")); /* so that only speed is new to the one who watches */
    int fd = open_control(f);
    double speed = -1; /* samples a second */
    assert_string_equal(command(fd, "watch", 5, f->text), "ok");
    assert_string_equal(command(fd, "progress -1", 11, f->text), "error this is no command");
    assert_string_equal(command(fd, "progress 0", 10, f->text), "ok");
    wait_until(control_notice_parse_speed(command(fd, "progress 5000", 13, f->text), &speed));
    assert_true(speed > 0 && speed <= 5000);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "supervise") == 0)
        return supervisor_main(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_exit_codes),
        CASE(test_exit_code_of_failure),
        CASE(test_signal),
        CASE(test_command_not_found),
        CASE(test_directory_missing),
        CASE(test_corrupt_grant),
        CASE(test_time_limit),
        CASE(test_environment),
        CASE(test_record_before_exec),
        CASE(test_input),
        CASE(test_input_is_bounded),
        CASE(test_output_streams),
        CASE(test_output_partial_after_pause),
        CASE(test_output_long_line),
        CASE(test_output_rotation),
        CASE(test_output_full_disk),
        CASE(test_stop_with_grace),
        CASE(test_stop_is_enforced),
        CASE(test_signal_command),
        CASE(test_descendants_end),
        CASE(test_descendants_end_by_cgroup),
        CASE(test_killed_supervisor_ends_task),
        CASE(test_lease_ends_task),
        CASE(test_lease_spares_services),
        CASE(test_ready_by_command),
        CASE(test_ready_by_client),
        CASE(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
