/*
 * The supervisor alone, started as by the agent. This program is its own `gpumux`: called as
 * `supervisor_test supervise DIRECTORY` it is a supervisor.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup_place.h"
#include "base/durable.h"
#include "node/supervisor/control_socket.h"
#include "node/supervisor/output.h"
#include "node/supervisor/process.h"
#include "node/supervisor/supervisor.h"
#include "node/supervisor/supervisor_fixture.h"

/* ---- ends ---- */

static void exit_zero_is_recorded_as_success(void **state)
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

static void exit_code_of_failure_is_recorded(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "exit 7");
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_EXIT);
    assert_int_equal(f->exit.exit_code, 7);
}

static void killing_signal_is_recorded(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "kill -USR1 $$");
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_SIGNAL);
    assert_int_equal(f->exit.signal, SIGUSR1);
    assert_int_equal(f->exit.exit_code, -1);
}

static void unknown_command_fails_start(void **state)
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

static void missing_directory_fails_start(void **state)
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

static void second_supervisor_is_refused(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "exit 0");
    start(f);
    finish(f);
    /* A second supervisor in the same directory must not start, because the socket exists. */
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

static void time_limit_ends_task(void **state)
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

/* Returns GRACE_MS of the next notice "ending GRACE_MS"; -1: the supervisor has ended. */
static int64_t wait_ending(int fd)
{
    char notice[CONTROL_REPLY_MAX];
    int64_t grace_ms = -1;
    ssize_t n;
    while ((n = recv(fd, notice, sizeof notice - 1, 0)) > 0) {
        notice[n] = '\0';
        if (control_notice_parse_ending(notice, &grace_ms))
            return grace_ms;
    }
    return -1;
}

/* A watcher of endings has time to end the attempt. A watcher that reconnects gets the remaining
 * time. */
static void watcher_is_notified_of_time_limit(void **state)
{
    enum { GRACE_MS = 1000 };
    struct fixture *f = *state;
    char reply[256];
    set_shell(f, "trap '' TERM; while :; do sleep 0.01; done");
    f->grant.time_limit_ms = 200;
    f->grant.grace_ms = GRACE_MS;
    start(f);
    int fd = open_control(f);
    assert_string_equal(command(fd, "watch endings", 13, reply), "ok");
    int64_t left_ms = wait_ending(fd);
    int64_t told_ms = clock_boot_ms();
    assert_true(left_ms > 0 && left_ms <= GRACE_MS);
    close(fd);
    fd = open_control(f);
    assert_int_equal(send(fd, "watch endings", 13, 0), 13);
    int64_t late_ms = wait_ending(fd);
    assert_true(late_ms >= 0 && late_ms <= left_ms);
    wait_until(clock_boot_ms() > told_ms + GRACE_MS + 200);
    assert_false(is_dead(wait_record(f).task_pid));
    assert_int_equal(send(fd, "kill", 4, 0), 4);
    finish(f);
    close(fd);
    assert_int_equal(f->exit.failure, FAILURE_TIMEOUT);
    assert_int_equal(f->exit.signal, SIGKILL);
}

/* An agent without support for endings would mistake such a notice for a reply. */
static void plain_watcher_gets_no_ending_notice(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap '' TERM; while :; do sleep 0.01; done");
    f->grant.time_limit_ms = 200;
    f->grant.grace_ms = 200;
    start(f);
    int fd = open_control(f);
    assert_string_equal(command(fd, "watch", 5, f->text), "ok");
    assert_int_equal(wait_ending(fd), -1);
    finish(f);
    close(fd);
    assert_int_equal(f->exit.failure, FAILURE_TIMEOUT);
}

/* ---- inheritance ---- */

static void task_starts_in_clean_environment(void **state)
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

static void record_is_written_before_exec(void **state)
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

static void repeated_input_is_delivered_once(void **state)
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

static void buffered_input_is_bounded(void **state)
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

static void output_lines_keep_stream_names(void **state)
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

static void partial_line_is_flushed_after_pause(void **state)
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

static void long_output_line_is_split(void **state)
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

static void rotated_output_keeps_offsets(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done");
    f->grant.log_file_bytes = 4096;
    f->grant.log_files = 3;
    start(f);
    finish(f);
    assert_true(output_disk_bytes(f->directory_fd) <= 3 * 4096);
    /* A read from the beginning starts at the first kept byte, the beginning of a line. */
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
    /* A read from the middle continues across files. */
    char *half = strdup(f->text + 5000);
    assert_true(read_log(f, slice.offset + 5000) == slice.length - 5000);
    assert_string_equal(f->text, half);
    free(half);
    assert_int_equal(read_log(f, slice.offset + slice.length), 0);
}

static void full_disk_does_not_block_task(void **state)
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

static void stopped_task_has_grace_period(void **state)
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

static void stop_kills_task_after_grace(void **state)
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

static void signal_command_reaches_task(void **state)
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

/* ---- many peers at the socket ---- */

enum { HOARD = CONTROL_PEERS_MAX + 4 };

/* A task that opens more connections than allowed, and reports when it has them. */
static int hoard(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof address.sun_path, path);
    for (int i = 0; i < HOARD; i++)
        if (connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&address,
                    sizeof address) < 0)
            return 1;
    puts("up");
    fflush(stdout);
    for (;;)
        pause();
}

static void connection_hoarding_task_cannot_exclude_agent(void **state)
{
    struct fixture *f = *state;
    char program[256] = "", path[128], reply[256];
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(path, sizeof path, "%s/" CONTROL_SOCKET_NAME, f->directory);
    set_command(f, program, "hoard", path);
    start(f);
    wait_until(read_log(f, 0) > 0);
    int first = open_control(f), second = open_control(f);
    assert_string_equal(command(first, "watch", 5, reply), "ok");
    assert_string_equal(command(second, "stop 20000", 10, reply), "ok");
    close(first);
    close(second);
    finish(f);
    assert_int_equal(f->exit.signal, SIGTERM);
}

static int64_t cpu_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void supervisor_without_descriptors_stays_idle(void **state)
{
    /* Enough for poll(), which counts its descriptors, but not for all these peers. */
    enum { REST_MS = 300, FILES = CONTROL_PEERS_MAX + 8 };
    struct fixture *f = *state;
    struct rlimit before;
    int fds[CONTROL_PEERS_MAX];
    char reply[256];
    set_shell(f, "sleep 1000");
    start(f);
    wait_until(has_file(f, "ready"));
    assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, NULL, &before), 0);
    const struct rlimit few = {.rlim_cur = FILES, .rlim_max = before.rlim_max};
    assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        fds[i] = open_control(f);
    int64_t since_ms = cpu_ms(f->pid);
    usleep(REST_MS * 1000);
    assert_true(cpu_ms(f->pid) - since_ms < REST_MS / 3);
    assert_int_equal(prlimit(f->pid, RLIMIT_NOFILE, &before, NULL), 0);
    assert_string_equal(command(fds[CONTROL_PEERS_MAX - 1], "kill", 4, reply), "ok");
    for (int i = 0; i < CONTROL_PEERS_MAX; i++)
        close(fds[i]);
    finish(f);
}

/* Processes that a task leaves in sessions of their own end with the task. */
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

static void descendants_end_with_task(void **state)
{
    leave_behind(*state);
}

static void cgroup_ends_descendants_with_task(void **state)
{
    struct fixture *f = *state;
    char name[64], directory[PATH_MAX];
    snprintf(name, sizeof name, "gpumux-test-%d", getpid());
    int fd = cgroup_place_find(name, directory);
    if (fd < 0) {
        print_message("skipped: no cgroup v2 hierarchy is writable here\n");
        skip();
    }
    assert_int_equal(mkdirat(fd, "task", 0755), 0);
    f->cgroup_fd = fd;
    leave_behind(f);
    wait_until(unlinkat(fd, "task", AT_REMOVEDIR) == 0); /* only an empty group can be removed */
    cgroup_place_close(fd, name);
}

static void killed_supervisor_ends_task(void **state)
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
    /* The agent must find its children. */
    assert_false(is_dead(child));
    assert_true(process_kill_marked(f->mark, geteuid()) >= 1);
    wait_until(is_dead(child));
    assert_int_equal(process_kill_marked(f->mark, geteuid()), 0);
}

static void process_mark_is_found_during_exec(void **state)
{
    enum { ROUNDS = 20 };
    struct fixture *f = *state;
    char chain[] = "exec sh -c \"$0\" \"$0\"", first[] = "echo begun; exec sh -c \"$0\" \"$0\"";
    for (int i = 0; i < ROUNDS; i++) {
        int begun[2], status;
        char text[8];
        assert_int_equal(pipe(begun), 0);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(begun[1], 1);
            putenv(f->mark);
            execl("/bin/sh", "sh", "-c", first, chain, NULL);
            _exit(127);
        }
        assert_true(pid > 0 && read(begun[0], text, sizeof text) > 0);
        assert_int_equal(process_kill_marked(f->mark, geteuid()), 1);
        assert_true(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        close(begun[0]);
        close(begun[1]);
    }
}

/* A process with the pid or the mark of the attempt, but another start or another user. */
static void foreign_process_is_never_signalled(void **state)
{
    struct fixture *f = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t root = fork();
    if (root == 0) {
        if (fork() == 0) {
            putenv(f->mark);
            dup2(ready[1], 1);
            execl("/bin/sh", "sh", "-c", "echo; exec sleep 1000", NULL);
        }
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    uint64_t start = process_start(root);
    assert_int_equal(process_signal_descendants(root, start + 1, SIGKILL, NULL), 0);
    assert_int_equal(process_kill_marked(f->mark, geteuid() + 1), 0);
    assert_false(process_has_ended(root, start));
    assert_true(process_has_ended(root, start + 1));
    assert_int_equal(process_signal_descendants(root, start, SIGKILL, NULL), 1);
    kill(root, SIGKILL);
    assert_int_equal(waitpid(root, NULL, 0), root);
    assert_true(process_has_ended(root, start));
    close(ready[0]);
    close(ready[1]);
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

static void expired_lease_ends_task(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done");
    f->grant.fence_ms = 100;
    f->grant.drain_ms = 200;
    int64_t deadline_ms = clock_boot_ms() + 2000; /* a start takes less, also on a busy machine */
    _Atomic uint64_t *lease = make_lease(f, deadline_ms);
    start(f);
    /* An extended lease keeps the task alive. */
    deadline_ms += 400;
    *lease = (uint64_t)deadline_ms;
    finish(f);
    assert_true(clock_boot_ms() >= deadline_ms + 100 + 200);
    assert_int_equal(f->exit.failure, FAILURE_NONE);
    assert_int_equal(f->exit.signal, SIGKILL);
    assert_non_null(strstr(f->exit.text, "its lease ended"));
    munmap((void *)(uintptr_t)lease, 8);
}

static void expired_lease_spares_service(void **state)
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

/* The grant is so old that the task may run on another node: the task does not begin, although the
 * lease was extended again. */
static void late_grant_never_begins(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "echo ran");
    f->grant.fence_ms = f->grant.drain_ms = 60000;
    f->grant.begin_by_ms = clock_boot_ms();
    _Atomic uint64_t *lease = make_lease(f, clock_boot_ms() + 600000);
    start(f);
    finish(f);
    assert_int_equal(f->exit.failure, FAILURE_NONE);
    assert_true(f->exit.signal != 0);
    assert_non_null(strstr(f->exit.text, "its lease ended"));
    assert_int_equal(read_log(f, 0), 0);
    assert_false(has_file(f, "ready"));
    munmap((void *)(uintptr_t)lease, 8);
}

/* ---- readiness ---- */

static void command_probe_makes_service_ready(void **state)
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

static void ready_packet_makes_service_ready(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 1000");
    f->grant.service = true;
    f->grant.ready = READY_CLIENT;
    start(f);
    int fd = open_control(f);
    char reply[256];
    /* Before the exec a service cannot be ready: the command is repeated until it has an effect. */
    wait_until(str_equal(command(fd, "ready", 5, reply), "ok") && has_file(f, "ready"));
    assert_string_equal(command(fd, "kill", 4, reply), "ok");
    close(fd);
    finish(f);
}

static void progress_command_yields_speed_notice(void **state)
{
    struct fixture *f = *state;
    set_shell(f, "sleep 1000");
    start(f);
    wait_until(has_file(f, "ready")); /* so that only the speed is new for the watcher */
    int fd = open_control(f);
    double speed = -1; /* samples per second */
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
    if (argc == 3 && strcmp(argv[1], "hoard") == 0)
        return hoard(argv[2]);
#define CASE(name) cmocka_unit_test_setup_teardown(name, supervisor_setup, supervisor_teardown)
    const struct CMUnitTest tests[] = {
        CASE(exit_zero_is_recorded_as_success),
        CASE(exit_code_of_failure_is_recorded),
        CASE(killing_signal_is_recorded),
        CASE(unknown_command_fails_start),
        CASE(missing_directory_fails_start),
        CASE(second_supervisor_is_refused),
        CASE(time_limit_ends_task),
        CASE(watcher_is_notified_of_time_limit),
        CASE(plain_watcher_gets_no_ending_notice),
        CASE(task_starts_in_clean_environment),
        CASE(record_is_written_before_exec),
        CASE(repeated_input_is_delivered_once),
        CASE(buffered_input_is_bounded),
        CASE(output_lines_keep_stream_names),
        CASE(partial_line_is_flushed_after_pause),
        CASE(long_output_line_is_split),
        CASE(rotated_output_keeps_offsets),
        CASE(full_disk_does_not_block_task),
        CASE(stopped_task_has_grace_period),
        CASE(stop_kills_task_after_grace),
        CASE(signal_command_reaches_task),
        CASE(connection_hoarding_task_cannot_exclude_agent),
        CASE(supervisor_without_descriptors_stays_idle),
        CASE(descendants_end_with_task),
        CASE(cgroup_ends_descendants_with_task),
        CASE(killed_supervisor_ends_task),
        CASE(process_mark_is_found_during_exec),
        CASE(foreign_process_is_never_signalled),
        CASE(expired_lease_ends_task),
        CASE(expired_lease_spares_service),
        CASE(late_grant_never_begins),
        CASE(command_probe_makes_service_ready),
        CASE(ready_packet_makes_service_ready),
        CASE(progress_command_yields_speed_notice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
