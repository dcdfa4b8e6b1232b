/* One run of the kill test: its parameters, and the state that its processes share. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemons.h"

enum { TASKS_MAX = 10000, TASK_LINES = 5, SUBMITTERS = 2 };

/* In memory that all processes of the test share. */
struct progress {
    _Atomic int kills;
    _Atomic uint64_t ids[TASKS_MAX]; /* by task number; 0: not accepted yet */
    _Atomic uint64_t tries, repeats; /* submissions sent; submissions answered with an earlier id */
};

struct scenario {
    uint64_t seed;
    int tasks, kills;
    int task_ms_max;   /* longest sleep of a task */
    int outage_ms_max; /* longest outage of a killed daemon */
    bool outlives;     /* outages are shorter than the lease, so no task has to run twice */
    const char *task_program;
    char journal[DAEMON_PATH_MAX];
    struct daemons daemons;
    struct progress *progress;
};

/* Submits the tasks whose number is `index` modulo SUBMITTERS, each after its share of the kills,
 * with one key until it is accepted. Returns 0 if all were accepted. */
int submitter_run(const struct scenario *s, int index);

/* Waits until every task has ended; returns 0, or -1 after the deadline. */
int verdict_wait(const struct scenario *s, int64_t deadline_boot_ms);
/* Judges the run while the daemons are running, and prints each violation. Returns their number. */
int verdict_judge(const struct scenario *s);
/* Judges what must be gone after the daemons have ended; returns the number of violations. */
int verdict_judge_processes(const struct scenario *s);
