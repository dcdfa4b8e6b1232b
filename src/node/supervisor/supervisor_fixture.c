#include "node/supervisor/supervisor_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/durable.h"
#include "node/supervisor/control_socket.h"
#include "node/supervisor/output.h"

int supervisor_setup(void **state)
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
                                      .begin_by_ms = INT64_MAX,
                                      .log_file_bytes = 1 << 20,
                                      .log_files = 4};
    *state = f;
    return 0;
}

int supervisor_teardown(void **state)
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

void set_command(struct fixture *f, const char *word, const char *option, const char *text)
{
    f->words[0] = word;
    f->words[1] = option;
    f->words[2] = text;
    f->grant.command = (struct words){.count = option ? 3 : 1, .items = f->words};
}

void set_shell(struct fixture *f, const char *script)
{
    set_command(f, "sh", "-c", script);
}

/* Moves the descriptors to the numbers that a supervisor expects, and runs the supervisor. */
static _Noreturn void become_supervisor(const struct fixture *f, int lock_fd, int started_fd,
                                        int grant_fd)
{
    int wanted[] = {lock_fd, f->lease_fd, f->cgroup_fd, started_fd, -1, grant_fd};
    for (int i = 0; i < 6; i++)
        wanted[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD, 20);
    for (int i = 0; i < 6; i++) {
        close(3 + i);
        if (wanted[i] >= 0)
            dup2(wanted[i], 3 + i);
    }
    close_range(9, ~0U, 0);
    execl("/proc/self/exe", "gpumux", "supervise", f->directory, (char *)NULL);
    _exit(99);
}

void start(struct fixture *f)
{
    struct str text;
    str_init(&text, ATTEMPT_FILE_MAX);
    assert_int_equal(attempt_grant_write(&f->grant, &text), 0);
    assert_int_equal(durable_write(NULL, f->directory_fd, "grant", str_text(&text), text.length),
                     0);
    str_done(&text);
    int grant_fd = openat(f->directory_fd, "grant", O_RDONLY | O_CLOEXEC);
    assert_true(grant_fd >= 0);
    char lock[96];
    snprintf(lock, sizeof lock, "%s/lock", f->top);
    int lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
    f->lock_fd = open(lock, O_RDWR | O_CLOEXEC);
    int started[2];
    assert_int_equal(pipe2(started, O_CLOEXEC), 0);
    f->pid = fork();
    if (f->pid == 0)
        become_supervisor(f, lock_fd, started[1], grant_fd);
    close(grant_fd);
    close(lock_fd);
    close(started[1]);
    f->started_fd = started[0];
}

bool has_file(const struct fixture *f, const char *name)
{
    struct stat st;
    return fstatat(f->directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

struct attempt_record wait_record(struct fixture *f)
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

void finish(struct fixture *f)
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

size_t read_log(struct fixture *f, uint64_t offset)
{
    struct output_slice slice;
    assert_int_equal(
        output_read(NULL, f->directory_fd, getuid(), offset, f->text, TEXT_MAX - 1, &slice), 0);
    f->text[slice.length] = '\0';
    return slice.length;
}

const char *untimed_log(struct fixture *f)
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

int open_control(struct fixture *f)
{
    int fd = -1;
    wait_until(control_socket_connect(NULL, f->directory_fd, getuid(), &fd) == 0);
    fcntl(fd, F_SETFL, 0);
    return fd;
}

const char *command(int fd, const char *packet, size_t length, char reply[256])
{
    assert_int_equal(send(fd, packet, length, MSG_NOSIGNAL), (ssize_t)length);
    ssize_t n = recv(fd, reply, 255, 0);
    assert_true(n > 0);
    reply[n] = '\0';
    return reply;
}

bool is_dead(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

pid_t read_pid(struct fixture *f, const char *name)
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
