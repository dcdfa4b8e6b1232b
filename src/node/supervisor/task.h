/*
 * Starting the task's process: forked first, exec'ed only when told, so that its pid can be on disk
 * before its first instruction runs. It leads a session of its own and dies with its supervisor.
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
    int status_fd;     /* readable when it was exec'ed (end of file) or could not be (see
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

/* Forks it. The child waits for task_release and ends if that never comes. */
int task_fork(struct error *e, const struct task_options *options, struct task *ret);
/* Lets it exec. */
void task_release(struct task *t);
/* After status_fd became readable: 0 if it runs, else -ERR_x with a sentence for its user. */
int task_exec_result(struct error *e, struct task *t, const struct task_options *options);
/* Closes what is open. The process is not touched. */
void task_close(struct task *t);
