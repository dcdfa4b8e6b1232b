/*
 * Starts the task's process in two steps, fork and exec, so that its pid is on disk before its
 * first instruction runs. The process leads a session of its own and dies with its supervisor.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "model/workload.h"

struct task {
    pid_t pid;
    int input_fd;      /* its standard input, non-blocking; -1: reads /dev/null */
    int output_fds[2]; /* its standard output and error, non-blocking */
    int go_fd;         /* see task_release */
    int status_fd;     /* readable after exec (end of file) or after a failed exec (see
                       task_exec_result); -1 afterwards */
};

struct task_options {
    const struct words *command;
    const struct words *environment;
    const char *directory;
    bool input;    /* wants a pipe as its standard input */
    bool silent;   /* output to /dev/null instead of pipes */
    int cgroup_fd; /* directory with a group `task` for it to live in; -1: none */
};

/* Forks. The child waits for task_release, and ends if that never comes. */
int task_fork(struct error *e, const struct task_options *options, struct task *ret);
/* Lets the child exec. */
void task_release(struct task *t);
/* When status_fd is readable: 0: the task runs; else -ERR_x with a sentence for its user. */
int task_exec_result(struct error *e, struct task *t, const struct task_options *options);
/* Closes all descriptors. The process is not touched. */
void task_close(struct task *t);
