/*
 * Starts the task's process in two steps, fork and exec, so that the pid is durable before the
 * command's first instruction runs. The process leads a session of its own and dies with its
 * supervisor.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "model/workload.h"

struct task {
    pid_t pid;
    int input_fd;      /* standard input of the task, non-blocking; -1: the task reads /dev/null */
    int output_fds[2]; /* standard output and error of the task, non-blocking */
    int go_fd;         /* released by task_release() */
    int status_fd;     /* readable after exec or a failed exec, see task_exec_result(); then -1 */
};

struct task_options {
    const struct words *command;
    const struct words *environment;
    const char *directory;
    bool input;    /* standard input is a pipe */
    bool silent;   /* output goes to /dev/null instead of pipes */
    int cgroup_fd; /* the attempt's cgroup, with a child `task`; -1: none */
};

/* Forks. The child waits for task_release(), and exits if the parent closes the task without that
 * call. */
int task_fork(struct error *e, const struct task_options *options, struct task *ret);
/* Lets the child exec. */
void task_release(struct task *t);
/* Reads the result of exec once status_fd is readable. Returns 0 if the task runs, else -ERR_x with
 * a sentence for the workload's user. */
int task_exec_result(struct error *e, struct task *t, const struct task_options *options);
/* Closes all descriptors, without affecting the process. */
void task_close(struct task *t);
