/* Several processes on one emulated device: their shares of its time, and the effects of their
 * deaths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/emu/driver_api.h"

enum { CLIENTS = 2, KILLERS = 6 };

static struct driver_api api;
static unsigned kill_count = 300;

/* Reports of a child, in memory shared with the test. */
struct report {
    _Atomic int ready;
    _Atomic int go;
    float ms[CLIENTS];
};

/* A client that waits until all are ready and then runs 40 kernels of 5 ms. Only the fork uses the
 * driver: the test itself never calls cuInit before its children have. */
static int run_client(struct report *report, int number, unsigned sm_permille)
{
    void *start, *end;
    driver_api_open_device(&api);
    if (api.cuEventCreate(&start, 0) != 0 || api.cuEventCreate(&end, 0) != 0)
        return 1;
    report->ready++;
    while (!report->go)
        usleep(100);
    if (api.cuEventRecord(start, NULL) != 0)
        return 1;
    for (int i = 0; i < 40; i++) {
        if (driver_api_burn(&api, NULL, sm_permille, 100, 5000000) != 0)
            return 1;
    }
    if (api.cuEventRecord(end, NULL) != 0 || api.cuCtxSynchronize() != 0)
        return 1;
    return api.cuEventElapsedTime(&report->ms[number], start, end);
}

static void run_clients(unsigned sm_permille, float ret_ms[CLIENTS])
{
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(report, MAP_FAILED);
    pid_t children[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(run_client(report, i, sm_permille));
    }
    while (report->ready < CLIENTS)
        usleep(1000);
    report->go = 1;
    for (int i = 0; i < CLIENTS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
        ret_ms[i] = report->ms[i];
    }
    munmap(report, sizeof(*report));
}

/* Runs the clients until both times are within the limits: the clients do not start at the same
 * instant, and a busy machine may stop one while it launches. Such a run has correct emulated
 * times, but not those of the expected schedule. */
static void expect_times(double speed, int shared, unsigned sm_permille, float min_ms, float max_ms)
{
    enum { ATTEMPTS_MAX = 20 };
    float ms[CLIENTS];
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        driver_api_make_devices("H200", speed, shared);
        run_clients(sm_permille, ms);
        driver_api_remove_devices();
        bool right = true;
        for (int i = 0; i < CLIENTS; i++)
            right = right && ms[i] >= min_ms && ms[i] <= max_ms;
        if (right)
            return;
    }
    fail_msg("the clients took %g and %g ms, not %g to %g", (double)ms[0], (double)ms[1],
             (double)min_ms, (double)max_ms);
}

static void time_slicing_doubles_client_runtime(void **state)
{
    (void)state;
    /* 100 turns of 2 ms each, and 0.15 ms between two. */
    expect_times(0.25, 0, 200, 392, 402.01f + 30);
}

static void sharing_does_not_slow_small_kernels(void **state)
{
    (void)state;
    expect_times(0.25, 1, 400, 199.99f, 204);
}

/* Makes all calls that change the shared state, for ever. */
static void work_until_killed(uint64_t seed)
{
    enum { KEPT = 8 };
    uint64_t memory[KEPT] = {0};
    void *streams[2], *event;
    struct rng rng;
    rng_seed(&rng, seed);
    driver_api_open_device(&api);
    if (api.cuStreamCreate(&streams[0], 0) != 0 || api.cuEventCreate(&event, 0) != 0)
        _exit(1);
    for (;;) {
        uint64_t *slot = &memory[rng_below(&rng, KEPT)];
        void *stream = rng_below(&rng, 2) ? streams[0] : NULL;
        driver_api_burn(&api, stream, 300, 100, rng_below(&rng, 50000));
        if (*slot && rng_below(&rng, 2))
            api.cuMemFreeAsync(*slot, stream);
        else if (*slot)
            api.cuMemFree_v2(*slot);
        *slot = 0;
        if (api.cuMemAlloc_v2(slot, rng_below(&rng, 4 << 20) + 1) != 0)
            *slot = 0;
        api.cuEventRecord(event, stream);
        if (rng_below(&rng, 4) == 0)
            api.cuStreamWaitEvent(streams[0], event, 0);
        if (rng_below(&rng, 8) == 0 && api.cuStreamCreate(&streams[1], 0) == 0)
            api.cuStreamDestroy_v2(streams[1]);
        if (rng_below(&rng, 8) == 0)
            api.cuCtxSynchronize();
    }
}

static pid_t start_worker(uint64_t seed)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        work_until_killed(seed);
    return child;
}

static void end_worker(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    do
        assert_int_equal(waitpid(child, &status, 0), child);
    while (!WIFEXITED(status) && !WIFSIGNALED(status));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Stops a worker at a random point, single-steps it for some hundred instructions, and kills it. */
static bool end_worker_at_an_instruction(pid_t child, unsigned instructions)
{
    int status;
    if (ptrace(PTRACE_SEIZE, child, NULL, NULL) < 0 ||
        ptrace(PTRACE_INTERRUPT, child, NULL, NULL) < 0) {
        end_worker(child);
        return false;
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    for (unsigned i = 0; i < instructions; i++) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0)
            break;
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    end_worker(child);
    return true;
}

/* Checks that no memory is left and that the device runs on. In a child, since the test itself has
 * no driver. */
static void check_device(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsigned count = 0;
        void *device;
        nvmlMemory_t memory;
        if (api.nvmlInit_v2() != 0 || api.nvmlDeviceGetHandleByIndex_v2(0, &device) != 0 ||
            api.nvmlDeviceGetMemoryInfo(device, &memory) != 0 || memory.used != 0)
            _exit(1);
        if (api.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL) != 0 || count != 0)
            _exit(2);
        void *start, *end;
        float ms;
        driver_api_open_device(&api);
        if (api.cuEventCreate(&start, 0) != 0 || api.cuEventCreate(&end, 0) != 0 ||
            api.cuEventRecord(start, NULL) != 0 ||
            driver_api_burn(&api, NULL, 1000, 0, 70000000) != 0 ||
            api.cuEventRecord(end, NULL) != 0 || api.cuCtxSynchronize() != 0 ||
            api.cuEventElapsedTime(&ms, start, end) != 0 || ms < 69.99f)
            _exit(3);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void killed_client_leaves_nothing_behind(void **state)
{
    (void)state;
    struct rng rng;
    uint64_t seed = rng_os_seed();
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_seed(&rng, seed);
    driver_api_make_devices("H200:24g", 20, 0);
    pid_t workers[KILLERS];
    for (int i = 0; i < KILLERS; i++)
        workers[i] = start_worker(rng_u64(&rng));
    bool can_step = true;
    for (unsigned i = 0; i < kill_count; i++) {
        unsigned victim = (unsigned)rng_below(&rng, KILLERS);
        usleep((useconds_t)rng_below(&rng, 4000));
        if (can_step && i % 4 == 0)
            can_step =
                end_worker_at_an_instruction(workers[victim], (unsigned)rng_below(&rng, 2000));
        else
            end_worker(workers[victim]);
        workers[victim] = start_worker(rng_u64(&rng));
    }
    for (int i = 0; i < KILLERS; i++)
        end_worker(workers[i]);
    check_device();
    driver_api_remove_devices();
    if (!can_step)
        print_message("skipped: kills at every instruction: ptrace is not allowed here\n");
}

static void clients_beyond_slots_are_refused(void **state)
{
    (void)state;
    enum { MANY = 300, SLOTS = 256 };
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(report, MAP_FAILED);
    driver_api_make_devices("T4", 1, 0);
    pid_t children[MANY];
    int tried = 0, refused = 0;
    for (; tried < MANY; tried++) {
        children[tried] = fork();
        assert_true(children[tried] >= 0);
        if (children[tried] == 0) {
            void *context;
            if (api.cuInit(0) != 0)
                _exit(1);
            int r = api.cuDevicePrimaryCtxRetain(&context, 0);
            if (r == CUDA_ERROR_DEVICE_UNAVAILABLE)
                report->go++;
            else if (r != CUDA_SUCCESS)
                _exit(1);
            report->ready++;
            pause();
            _exit(0);
        }
    }
    while (report->ready < MANY)
        usleep(1000);
    refused = report->go;
    for (int i = 0; i < tried; i++)
        end_worker(children[i]);
    assert_int_equal(refused, MANY - SLOTS);
    check_device();
    driver_api_remove_devices();
    munmap(report, sizeof(*report));
}

/* Starts a process that only has a context, until it is killed. Returns the result of opening
 * it. */
static int start_idle(struct report *report, pid_t *ret_child)
{
    report->ready = 0;
    *ret_child = fork();
    assert_true(*ret_child >= 0);
    if (*ret_child == 0) {
        void *context;
        report->go = api.cuInit(0) == 0 ? api.cuDevicePrimaryCtxRetain(&context, 0) : -1;
        report->ready = 1;
        for (;;)
            pause();
    }
    while (report->ready == 0)
        usleep(1000);
    return report->go;
}

static void contexts_use_configured_memory(void **state)
{
    (void)state;
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(report, MAP_FAILED);
    setenv("GPUMUX_EMU_CONTEXT_MIB", "400", 1);
    driver_api_make_devices("T4:1g", 1, 0);
    unsetenv("GPUMUX_EMU_CONTEXT_MIB");
    pid_t first, second, third;
    assert_int_equal(start_idle(report, &first), CUDA_SUCCESS);
    assert_int_equal(start_idle(report, &second), CUDA_SUCCESS);
    assert_int_equal(start_idle(report, &third), CUDA_ERROR_OUT_OF_MEMORY);
    end_worker(third);
    end_worker(first);
    assert_int_equal(start_idle(report, &first), CUDA_SUCCESS);
    end_worker(first);
    end_worker(second);
    check_device();
    driver_api_remove_devices();
    munmap(report, sizeof(*report));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_slicing_doubles_client_runtime),
        cmocka_unit_test(sharing_does_not_slow_small_kernels),
        cmocka_unit_test(killed_client_leaves_nothing_behind),
        cmocka_unit_test(clients_beyond_slots_are_refused),
        cmocka_unit_test(contexts_use_configured_memory),
    };
    if (argc > 1)
        kill_count = (unsigned)strtoul(argv[1], NULL, 10);
    driver_api_load(&api);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
