/*
 * Moves the device memory of processes into the host's, and back, by the driver's checkpoint calls.
 * In a process of our own, `gpumux checkpoint`, because the driver may hang.
 *
 * That process brings all of them into the state that is asked for, from whatever they are in, or
 * back to where they were: so it can be started again at any time. A lock file keeps two of them
 * apart, also those of an agent and of the one before it.
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
/* The line that the process prints when it is done; any other says why not. */
#define CHECKPOINT_SAYS_DONE "done"

enum checkpoint_result {
    CHECKPOINT_DONE,
    CHECKPOINT_FAILED, /* all are as they were before */
    CHECKPOINT_LOST,   /* it was killed or took too long: nobody knows how they are */
};

/* One that is under way. */
struct checkpoint {
    pid_t pid; /* 0: none */
    int output_fd;
    struct event *output; /* what it says, and that it has ended; or that it takes too long */
    size_t length;
    char text[WORKLOAD_TEXT_MAX];
    void (*on_end)(void *arg, enum checkpoint_result result, const char *text);
    void *arg;
};

struct checkpoint_order {
    struct event_base *base;
    bool off;              /* else: back */
    const char *lock_path; /* made if it is not there */
    const pid_t *pids;     /* those that have no device memory are passed over */
    size_t count;
    int64_t limit_ms;                        /* then it is given up */
    const char *emulate, *emulate_libraries; /* as in agent_options; NULL: real devices */
    /* Once, from the loop, unless it is abandoned before. text: why not, if not done. */
    void (*on_end)(void *arg, enum checkpoint_result result, const char *text);
    void *arg;
};

void checkpoint_init(struct checkpoint *c);
bool checkpoint_runs(const struct checkpoint *c);
/* Of one that was initialised or abandoned. -ERR_IO: it cannot be started. */
int checkpoint_start(struct checkpoint *c, const struct checkpoint_order *order);
/* It has ended, or nobody wants to know how it ends; kill: nor that it goes on. Returns the process
 * that is still to be waited for, which inside the driver may not even die; 0: none. */
pid_t checkpoint_abandon(struct checkpoint *c, bool kill);

/* The work itself, in that process: prints a sentence if it fails. Its exit status. */
int checkpoint_run(bool off, const char *lock_path, char *const *pids, size_t count);
