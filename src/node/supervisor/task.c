#include "node/supervisor/task.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "node/supervisor/cgroup_fork.h"

/* The child's message on the status pipe if exec failed. */
enum exec_stage { STAGE_DIRECTORY, STAGE_COMMAND };
struct exec_failure {
    enum exec_stage stage;
    int errno_value;
};

struct task_pipes {
    int input[2], output[2], error[2], go[2], status[2];
};

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

static void close_pipes(struct task_pipes *p)
{
    close_pair(p->input);
    close_pair(p->output);
    close_pair(p->error);
    close_pair(p->go);
    close_pair(p->status);
}

/* Opens a pipe, or /dev/null for an unwanted pipe; `end` is the child's end. */
static int open_end(int pair[2], bool wanted, int end)
{
    if (wanted)
        return pipe2(pair, O_CLOEXEC);
    pair[end] = open("/dev/null", O_RDWR | O_CLOEXEC);
    return pair[end] < 0 ? -1 : 0;
}

static int open_pipes(struct task_pipes *p, const struct task_options *options)
{
    *p = (struct task_pipes){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    if (open_end(p->input, options->input, 0) < 0 || open_end(p->output, !options->silent, 1) < 0 ||
        open_end(p->error, !options->silent, 1) < 0 || pipe2(p->go, O_CLOEXEC) < 0 ||
        pipe2(p->status, O_CLOEXEC) < 0) {
        int failed = errno;
        close_pipes(p);
        errno = failed;
        return -1;
    }
    return 0;
}

static void reset_signals(void)
{
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(signal, &action, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void fail_child(int status_fd, enum exec_stage stage, int errno_value)
{
    struct exec_failure failure = {.stage = stage, .errno_value = errno_value};
    ssize_t n = write(status_fd, &failure, sizeof failure);
    _exit(n < 0 ? 126 : 127);
}

static _Noreturn void run_child(const struct task_options *options, struct task_pipes *p,
                                pid_t parent)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* the parent died before prctl() */
    close(p->go[1]);
    char go;
    if (read(p->go[0], &go, 1) != 1)
        _exit(1);
    reset_signals();
    if (dup2(p->input[0], 0) < 0 || dup2(p->output[1], 1) < 0 || dup2(p->error[1], 2) < 0 ||
        dup3(p->status[1], 3, O_CLOEXEC) < 0)
        _exit(1);
    close_range(4, ~0U, 0);
    if (chdir(options->directory) < 0)
        fail_child(3, STAGE_DIRECTORY, errno);
    /* execvp() searches the command in the PATH of the new environment. */
    environ = (char **)(uintptr_t)options->environment->items;
    execvp(options->command->items[0], (char *const *)(uintptr_t)options->command->items);
    fail_child(3, STAGE_COMMAND, errno);
}

static void set_nonblocking(int fd)
{
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Moves the status pipe, so that it survives the child's moves of descriptors below 4. */
static int lift_status(struct task_pipes *p)
{
    int high = fcntl(p->status[1], F_DUPFD_CLOEXEC, 16);
    if (high < 0)
        return -1;
    close(p->status[1]);
    p->status[1] = high;
    return 0;
}

/* Best effort: without the cgroup, descendants are found by walking the process tree. */
static void move_to_group(int cgroup_fd, pid_t pid)
{
    char text[16];
    int fd = openat(cgroup_fd, "task/cgroup.procs", O_WRONLY | O_CLOEXEC);
    int n = snprintf(text, sizeof text, "%d", pid);
    if (fd < 0)
        return;
    (void)!write(fd, text, (size_t)n);
    close(fd);
}

static pid_t fork_into(int cgroup_fd)
{
    if (cgroup_fd < 0)
        return fork();
    int group_fd = openat(cgroup_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t pid = group_fd < 0 ? -1 : cgroup_fork(group_fd, false);
    if (group_fd >= 0 && pid != 0)
        close(group_fd);
    if (pid >= 0)
        return pid;
    pid = fork();
    if (pid > 0)
        move_to_group(cgroup_fd, pid);
    return pid;
}

int task_fork(struct error *e, const struct task_options *options, struct task *ret)
{
    struct task_pipes p;
    if (open_pipes(&p, options) < 0)
        return error_set_errno(e, ERR_IO, errno, "no pipes for the task");
    pid_t parent = getpid();
    pid_t pid = lift_status(&p) < 0 ? -1 : fork_into(options->cgroup_fd);
    if (pid == 0)
        run_child(options, &p, parent);
    if (pid < 0) {
        int failed = errno;
        close_pipes(&p);
        return error_set_errno(e, ERR_IO, failed, "the task's process cannot be made");
    }
    close(p.input[0]);
    close(p.output[1]);
    close(p.error[1]);
    close(p.go[0]);
    close(p.status[1]);
    set_nonblocking(p.input[1]);
    set_nonblocking(p.output[0]);
    set_nonblocking(p.error[0]);
    *ret = (struct task){.pid = pid,
                         .input_fd = p.input[1],
                         .output_fds = {p.output[0], p.error[0]},
                         .go_fd = p.go[1],
                         .status_fd = p.status[0]};
    return 0;
}

void task_release(struct task *t)
{
    /* The end of a dead child is reported anyway. */
    (void)!write(t->go_fd, "g", 1);
    close(t->go_fd);
    t->go_fd = -1;
}

int task_exec_result(struct error *e, struct task *t, const struct task_options *options)
{
    struct exec_failure failure;
    ssize_t n = read(t->status_fd, &failure, sizeof failure);
    close(t->status_fd);
    t->status_fd = -1;
    if (n != (ssize_t)sizeof failure)
        return 0;
    const char *command = options->command->items[0];
    if (failure.stage == STAGE_DIRECTORY)
        return error_set_errno(e, ERR_INVALID, failure.errno_value, "directory '%s'",
                               options->directory);
    if (failure.errno_value == ENOENT && !strchr(command, '/'))
        return error_set(e, ERR_NOT_FOUND, "command '%s' not found in PATH", command);
    return error_set_errno(e, ERR_INVALID, failure.errno_value, "command '%s'", command);
}

void task_close(struct task *t)
{
    int *fds[] = {&t->input_fd, &t->output_fds[0], &t->output_fds[1], &t->go_fd, &t->status_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}
