#include "node/device/self_test.h"

#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include "abi/cuda.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/library.h"

enum {
    SELF_TEST_MS = 10000, /* a context on a cold device takes some seconds */
    SELF_TEST_BYTES = 2 << 20,
    VARIABLES_MAX = 5,
    VARIABLE_MAX = PATH_MAX + 64,
};

int self_test_start(struct self_test *t, const struct self_test_place *place)
{
    char variables[VARIABLES_MAX][VARIABLE_MAX], *environment[VARIABLES_MAX + 1] = {NULL};
    char *const arguments[] = {(char[]){"gpumux"}, (char[]){"self-test"}, NULL};
    const struct {
        const char *name, *value;
    } wanted[VARIABLES_MAX] = {
        {"CUDA_VISIBLE_DEVICES", place->uuid},
        {"GPUMUX_EMU", place->emulate},
        {"LD_LIBRARY_PATH", place->emulate ? place->emulate_libraries : NULL},
        /* a directory without a daemon: not a client */
        {"CUDA_MPS_PIPE_DIRECTORY", place->mps_directory ? place->mps_directory : "/dev/null"},
        {"GPUMUX_DISABLE", "1"},
    };
    size_t count = 0;
    for (size_t i = 0; i < VARIABLES_MAX; i++) {
        if (!wanted[i].value)
            continue;
        if (snprintf(variables[count], VARIABLE_MAX, "%s=%s", wanted[i].name, wanted[i].value) >=
            VARIABLE_MAX)
            return -ERR_IO;
        environment[count] = variables[count];
        count++;
    }
    pid_t pid;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environment) != 0)
        return -ERR_IO;
    *t = (struct self_test){.pid = pid, .give_up_ms = clock_boot_ms() + SELF_TEST_MS};
    return 0;
}

void self_test_cancel(struct self_test *t, struct reaper *reaper)
{
    if (t->pid == 0)
        return;
    kill(t->pid, SIGKILL);
    reaper_take(reaper, t->pid);
    t->pid = 0;
}

enum self_test_result self_test_look(struct self_test *t, struct reaper *reaper)
{
    int status = 0;
    pid_t pid = waitpid(t->pid, &status, WNOHANG);
    if (pid == 0 && clock_boot_ms() < t->give_up_ms)
        return SELF_TEST_RUNS;
    if (pid == 0)
        self_test_cancel(t, reaper);
    t->pid = 0;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? SELF_TEST_PASSED
                                                                    : SELF_TEST_FAILED;
}

/* ---- in the child ---- */

#define DRIVER_CALLS(CALL)                                                                         \
    CALL(cuInit)                                                                                   \
    CALL(cuDeviceGet)                                                                              \
    CALL(cuDevicePrimaryCtxRetain)                                                                 \
    CALL(cuCtxSetCurrent)                                                                          \
    CALL(cuMemAlloc_v2)                                                                            \
    CALL(cuMemsetD8_v2)                                                                            \
    CALL(cuCtxSynchronize)                                                                         \
    CALL(cuMemFree_v2)

int self_test_run(void)
{
    struct {
        DRIVER_CALLS(CALL_MEMBER)
    } driver;
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory = 0;
    if (library_load(CUDA_SONAME, CALL_NAMES(DRIVER_CALLS), &driver).missing)
        return CUDA_ERROR_NOT_FOUND;
    int r = driver.cuInit(0);
    if (r == 0)
        r = driver.cuDeviceGet(&device, 0);
    if (r == 0)
        r = driver.cuDevicePrimaryCtxRetain(&context, device);
    if (r == 0)
        r = driver.cuCtxSetCurrent(context);
    if (r == 0)
        r = driver.cuMemAlloc_v2(&memory, SELF_TEST_BYTES);
    if (r == 0)
        r = driver.cuMemsetD8_v2(memory, 1, SELF_TEST_BYTES);
    if (r == 0)
        r = driver.cuCtxSynchronize();
    if (r == 0)
        r = driver.cuMemFree_v2(memory);
    return r;
}
