/* One run of the kill test: what is asked for, and what its processes share while it goes on. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemons.h"

enum { TASKS_MAX = 10000, TASK_LINES = 5, SUBMITTERS = 2 };

struct progress { /* in memory that all processes of the test share */
    _Atomic int kills;
    _Atomic uint64_t ids[TASKS_MAX]; /* by task number; 0: not accepted yet */
    _Atomic uint64_t tries, repeats; /* submits sent; answered with an id given before */
};

struct scenario {
    uint64_t seed;
    int tasks, kills;
    int task_ms_max;   /* how long a task sleeps at most */
    int outage_ms_max; /* how long what was killed stays away at most */
    bool outlives;     /* no outage lasts as long as the lease: nothing ever has to run again */
    const char *task_program;
    char journal[DAEMON_PATH_MAX];
    struct daemons daemons;
    struct progress *progress;
};

/* A submitter's whole life: submits the tasks whose number is `index` modulo SUBMITTERS, each when
 * its share of the kills has happened, with one key until it is accepted. 0: all are. */
int submitter_run(const struct scenario *s, int index);

/* Waits until every task has ended; 0 or -1 past the deadline. */
int verdict_wait(const struct scenario *s, int64_t deadline_boot_ms);
/* Judges the run while the daemons live, printing each breach; how many there were. */
int verdict_judge(const struct scenario *s);
/* The same for what must be gone once they have ended. */
int verdict_judge_processes(const struct scenario *s);
