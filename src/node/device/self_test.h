/*
 * Tests a device: a child process creates a context, allocates, fills and waits. It is a process of
 * its own because the driver may hang, and remembers the state of MPS for the life of a process.
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
    const char *mps_directory;               /* of the daemon to connect to; NULL: without MPS */
};

/* Starts `gpumux self-test`. -ERR_IO. */
int self_test_start(struct self_test *t, const struct self_test_place *place);
enum self_test_result { SELF_TEST_RUNS, SELF_TEST_PASSED, SELF_TEST_FAILED };
/* A test that takes too long is killed and has failed. */
enum self_test_result self_test_look(struct self_test *t, struct reaper *reaper);
void self_test_cancel(struct self_test *t, struct reaper *reaper);

/* The test itself, on the first visible device of this process. 0, or the driver's error. */
int self_test_run(void);
