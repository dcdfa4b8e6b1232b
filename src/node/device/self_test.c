#include "node/device/self_test.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include "abi/results.h"
#include "base/clock.h"
#include "base/error.h"

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

struct driver {
    int (*init)(unsigned int);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*allocate)(unsigned long long *, size_t);
    int (*fill)(unsigned long long, unsigned char, size_t);
    int (*synchronize)(void);
    int (*release)(unsigned long long);
};

static bool load(struct driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct {
        void *to;
        const char *name;
    } calls[] = {
        {&d->init, "cuInit"},
        {&d->device, "cuDeviceGet"},
        {&d->retain, "cuDevicePrimaryCtxRetain"},
        {&d->set_current, "cuCtxSetCurrent"},
        {&d->allocate, "cuMemAlloc_v2"},
        {&d->fill, "cuMemsetD8_v2"},
        {&d->synchronize, "cuCtxSynchronize"},
        {&d->release, "cuMemFree_v2"},
    };
    for (size_t i = 0; library && i < sizeof calls / sizeof calls[0]; i++)
        if (!(*(void **)calls[i].to = dlsym(library, calls[i].name)))
            return false;
    return library != NULL;
}

int self_test_run(void)
{
    struct driver d;
    int device;
    void *context;
    unsigned long long memory = 0;
    if (!load(&d))
        return CUDA_ERROR_NOT_FOUND;
    int r = d.init(0);
    if (r == 0)
        r = d.device(&device, 0);
    if (r == 0)
        r = d.retain(&context, device);
    if (r == 0)
        r = d.set_current(context);
    if (r == 0)
        r = d.allocate(&memory, SELF_TEST_BYTES);
    if (r == 0)
        r = d.fill(memory, 1, SELF_TEST_BYTES);
    if (r == 0)
        r = d.synchronize();
    if (r == 0)
        r = d.release(memory);
    return r;
}
