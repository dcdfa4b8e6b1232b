/*
 * Whether a device is of use: a process of our own makes a context on it, allocates, fills and waits. A
 * process, because the driver may hang, and keeps what it once saw of MPS for good.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/reaper.h"

struct self_test {
    pid_t pid; /* 0: none runs */
    int64_t give_up_ms;
};

struct self_test_place {
    const char *uuid;
    const char *emulate, *emulate_libraries; /* as in agent_options; NULL: a real device */
    const char *mps_directory;               /* to be a client of that daemon; NULL: of none */
};

/* Starts `gpumux self-test` there. -ERR_IO: it cannot be started. */
int self_test_start(struct self_test *t, const struct self_test_place *place);
enum self_test_result { SELF_TEST_RUNS, SELF_TEST_PASSED, SELF_TEST_FAILED };
/* One that takes too long is ended and has failed. */
enum self_test_result self_test_look(struct self_test *t, struct reaper *reaper);
void self_test_cancel(struct self_test *t, struct reaper *reaper);

/* The test itself, on the first visible device of this process. 0, or what the driver answered. */
int self_test_run(void);
