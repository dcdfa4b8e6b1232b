/*
 * Tests a device: a child process creates a context, allocates and fills memory, and waits for the
 * device. The test needs a process of its own because the driver may hang, and because the driver
 * caches the state of MPS for the life of a process.
 */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "node/reaper.h"

struct self_test {
    pid_t pid; /* 0: no test runs */
    int64_t give_up_ms;
};

struct self_test_place {
    const char *uuid;
    const char *emulate, *emulate_libraries; /* as in agent_options; NULL: a real device */
    /* directory of the MPS daemon to connect to; NULL: without MPS */
    const char *mps_directory;
};

/* Starts `gpumux self-test`. Returns 0 or -ERR_IO. */
int self_test_start(struct self_test *t, const struct self_test_place *place);
enum self_test_result { SELF_TEST_RUNS, SELF_TEST_PASSED, SELF_TEST_FAILED };
/* Polls the test. A test that takes too long is killed and has failed. */
enum self_test_result self_test_look(struct self_test *t, struct reaper *reaper);
void self_test_cancel(struct self_test *t, struct reaper *reaper);

/* Runs the test on the first visible device of this process. Returns 0, or the driver's error. */
int self_test_run(void);
