#include "node/checkpoint/checkpoint.h"

#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"

enum {
    VARIABLES_MAX = 4,
    VARIABLE_MAX = PATH_MAX + 64,
    PID_TEXT_MAX = 16,
    WORDS_BEFORE_PIDS = 4, /* gpumux checkpoint off|back LOCK */
};

void checkpoint_init(struct checkpoint *c)
{
    *c = (struct checkpoint){.output_fd = -1};
}

bool checkpoint_runs(const struct checkpoint *c)
{
    return c->output != NULL;
}

/* ---- end ---- */

static void close_output(struct checkpoint *c)
{
    if (c->output)
        event_free(c->output);
    if (c->output_fd >= 0)
        close(c->output_fd);
    c->output = NULL;
    c->output_fd = -1;
}

static void finish(struct checkpoint *c, enum checkpoint_result result, const char *text)
{
    close_output(c);
    c->on_end(c->arg, result, text);
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
    struct checkpoint *c = arg;
    if (what & EV_TIMEOUT) {
        kill(c->pid, SIGKILL);
        finish(c, CHECKPOINT_LOST, "the driver did not answer in time");
        return;
    }
    char rest[64];
    bool is_full = c->length == sizeof c->text - 1;
    ssize_t n = is_full ? read(fd, rest, sizeof rest)
                        : read(fd, c->text + c->length, sizeof c->text - 1 - c->length);
    if (n > 0 && !is_full)
        c->length += (size_t)n;
    /* The first line is the result; the driver may delay the child's exit for long. */
    char *end = memchr(c->text, '\n', c->length);
    if (!end && (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))))
        return;
    c->text[end ? (size_t)(end - c->text) : c->length] = '\0';
    if (c->length == 0)
        finish(c, CHECKPOINT_LOST, "the process that moves it was killed");
    else if (str_equal(c->text, CHECKPOINT_SAYS_DONE))
        finish(c, CHECKPOINT_DONE, "");
    else
        finish(c, CHECKPOINT_FAILED, c->text);
}

pid_t checkpoint_abandon(struct checkpoint *c, bool also_kill)
{
    pid_t left = c->pid;
    if (left != 0 && also_kill)
        kill(left, SIGKILL);
    if (left != 0 && waitpid(left, NULL, WNOHANG) != 0)
        left = 0;
    close_output(c);
    checkpoint_init(c);
    return left;
}

/* ---- start ---- */

static size_t make_environment(const struct checkpoint_order *order,
                               char variables[VARIABLES_MAX][VARIABLE_MAX],
                               char *environment[VARIABLES_MAX + 1])
{
    const struct {
        const char *name, *value;
    } wanted[VARIABLES_MAX] = {
        {"GPUMUX_EMU", order->emulate},
        {"LD_LIBRARY_PATH", order->emulate ? order->emulate_libraries : NULL},
        {"CUDA_MPS_PIPE_DIRECTORY", "/dev/null"}, /* never a client */
        {"GPUMUX_DISABLE", "1"},
    };
    size_t count = 0;
    for (size_t i = 0; i < VARIABLES_MAX; i++) {
        if (!wanted[i].value)
            continue;
        if (snprintf(variables[count], VARIABLE_MAX, "%s=%s", wanted[i].name, wanted[i].value) >=
            VARIABLE_MAX)
            return 0;
        environment[count] = variables[count];
        count++;
    }
    environment[count] = NULL;
    return count;
}

static pid_t spawn(const struct checkpoint_order *order, int output_fd)
{
    char variables[VARIABLES_MAX][VARIABLE_MAX], *environment[VARIABLES_MAX + 1];
    char numbers[CHECKPOINT_PROCESSES_MAX][PID_TEXT_MAX], lock_path[PATH_MAX];
    char *words[WORDS_BEFORE_PIDS + CHECKPOINT_PROCESSES_MAX + 1] = {
        (char[]){"gpumux"}, (char[]){"checkpoint"}, order->off ? (char[]){"off"} : (char[]){"back"},
        lock_path};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (order->count > CHECKPOINT_PROCESSES_MAX ||
        !str_copy(lock_path, sizeof lock_path, order->lock_path) ||
        make_environment(order, variables, environment) == 0)
        return -1;
    for (size_t i = 0; i < order->count; i++) {
        snprintf(numbers[i], PID_TEXT_MAX, "%d", (int)order->pids[i]);
        words[WORDS_BEFORE_PIDS + i] = numbers[i];
    }
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    bool started = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO) == 0 &&
                   posix_spawn(&pid, "/proc/self/exe", &actions, NULL, words, environment) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return started ? pid : -1;
}

int checkpoint_start(struct checkpoint *c, const struct checkpoint_order *order)
{
    int ends[2];
    const struct timeval limit = {.tv_sec = order->limit_ms / 1000,
                                  .tv_usec = order->limit_ms % 1000 * 1000};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -ERR_IO;
    c->output_fd = ends[0];
    c->output = event_new(order->base, ends[0], EV_READ | EV_PERSIST, on_output, c);
    c->on_end = order->on_end;
    c->arg = order->arg;
    pid_t pid = c->output ? spawn(order, ends[1]) : -1;
    close(ends[1]);
    c->pid = pid < 0 ? 0 : pid;
    if (pid < 0 || event_add(c->output, &limit) < 0) {
        (void)checkpoint_abandon(c, true);
        return -ERR_IO;
    }
    return 0;
}
