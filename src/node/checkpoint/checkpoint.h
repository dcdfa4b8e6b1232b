/*
 * Moves the device memory of processes to the host's memory and back, by the driver's checkpoint
 * calls, in a child process (`gpumux checkpoint`) because the driver may hang.
 *
 * From any state, the child brings all processes into the wanted state, or back to their earlier
 * state. The agent can therefore start another child at any time. A lock file serialises children,
 * also the children of two successive agents.
 *
 * This folder contains the code that moves device memory. Files of the folder node/checkpoint may
 * include base, model, abi, attempt, node, node/supervisor.
 */
#pragma once
#include <event2/util.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/workload.h"

struct event;
struct event_base;

enum { CHECKPOINT_PROCESSES_MAX = 128 };
/* Line that the child prints on success; any other line is an error. */
#define CHECKPOINT_SAYS_DONE "done"

enum checkpoint_result {
    CHECKPOINT_DONE,
    CHECKPOINT_FAILED, /* failed; all processes are as before */
    CHECKPOINT_LOST,   /* child killed or timed out; the state of the processes is unknown */
};

/* A move in flight. */
struct checkpoint {
    pid_t pid; /* 0: none */
    int output_fd;
    struct event *output; /* output of the child, its end, or a timeout */
    size_t length;
    char text[WORKLOAD_TEXT_MAX];
    void (*on_end)(void *arg, enum checkpoint_result result, const char *text);
    void *arg;
};

struct checkpoint_order {
    struct event_base *base;
    bool off;              /* true: to the host's memory; false: back */
    const char *lock_path; /* created if missing */
    const pid_t *pids;     /* processes without device memory are skipped */
    size_t count;
    int64_t limit_ms;                        /* timeout */
    const char *emulate, *emulate_libraries; /* as in agent_options; NULL: real devices */
    /* Called once, from the loop, unless the move is abandoned. text: the error, if any. */
    void (*on_end)(void *arg, enum checkpoint_result result, const char *text);
    void *arg;
};

void checkpoint_init(struct checkpoint *c);
bool checkpoint_runs(const struct checkpoint *c);
/* Starts a move, after checkpoint_init() or checkpoint_abandon(). Returns 0 or -ERR_IO. */
int checkpoint_start(struct checkpoint *c, const struct checkpoint_order *order);
/* Forgets the move; with `kill` the child is killed. Returns the child that must still be reaped (a
 * child inside the driver may not die at once); 0: none. */
pid_t checkpoint_abandon(struct checkpoint *c, bool kill);

/* Moves the memory, in the child, and prints an error on failure. Returns the exit status. */
int checkpoint_run(bool off, const char *lock_path, char *const *pids, size_t count);
