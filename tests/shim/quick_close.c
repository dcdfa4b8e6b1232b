/*
 * quick_close CASE [ORDERS]: a task whose launches are quick ones (quick.h), until something
 * happens that must end that: then the next is none, or the shim would not see what it has to. For
 * quick_close.sh, with quick_driver.c and the shim that measures itself; ORDERS is what the
 * registrar listens to. Prints what went wrong, and exits with 1 then; one that hangs is ended by
 * an alarm. Without arguments it prints the names of all cases.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/page.h"
#include "shim/life/exit.h"
#include "shim/launch/streams.h"
#include "tests/shim/driver_calls.h"
#include "tests/shim/expect.h"
#include "tests/shim/quick_driver.h"

enum {
    KERNELS = 4,
    IN_A_ROW = 2 * KERNELS,
    SOME = 100, /* launches, which take less time than a look at the clock is good for */
    ROUNDS = 20,
    CHILDREN = 5,
    TICKS = 3,
    PATIENCE_S = 100,
    STATES = 8, /* of a process, at most: enum status_state */
    STATUS = 7, /* of who exits */
};

static struct real_calls driver;
static struct quick_driver *seen;
static const _Atomic uint64_t *quick_launches; /* of ticks.h */
static const struct limits_page *limits;
static const struct status_page *status;
static const char *orders_path;
static CUcontext context;
static uint64_t launched_before; /* by a parent */

/* ---- launches ---- */

static CUfunction kernel(unsigned number)
{
    return (CUfunction)(uintptr_t)(4096 + 64 * number);
}

/* Whether it was a quick one. */
static bool launch(CUstream stream, unsigned number)
{
    uint64_t before = *quick_launches;
    EXPECT(driver.cuLaunchKernel(kernel(number), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == 0);
    return *quick_launches != before;
}

static bool launch_extended(CUstream stream, unsigned number)
{
    const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    uint64_t before = *quick_launches;
    EXPECT(driver.cuLaunchKernelEx(&config, kernel(number), NULL, NULL) == 0);
    return *quick_launches != before;
}

/* Never a quick one. */
static bool launch_cooperative(CUstream stream, unsigned number)
{
    EXPECT(driver.cuLaunchCooperativeKernel(kernel(number), 1, 1, 1, 1, 1, 1, 0, stream, NULL) ==
           0);
    return false;
}

/* Launches until all of these kernels are known, and the page is open for the stream. */
static void open_with(bool (*launch_one)(CUstream, unsigned), CUstream stream, unsigned first,
                      unsigned count)
{
    unsigned in_a_row = 0;
    for (unsigned i = 0; in_a_row < IN_A_ROW; i++)
        in_a_row = launch_one(stream, first + i % count) ? in_a_row + 1 : 0;
}

static void open_page(CUstream stream)
{
    open_with(launch, stream, 0, KERNELS);
}

/* How many of some are quick. */
static unsigned quick_of_some(CUstream stream)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SOME; i++)
        count += launch(stream, i % KERNELS);
    return count;
}

static uint64_t launched(void)
{
    return seen->launches + seen->launches_ex - launched_before;
}

static uint64_t started(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < PAGE_STREAMS_MAX; i++)
        sum += status->started[i];
    return sum;
}

/* The slot that the next launch is charged to; -1: none. */
static int charged_slot(CUstream stream)
{
    uint64_t before[PAGE_STREAMS_MAX];
    int slot = -1;
    for (int i = 0; i < PAGE_STREAMS_MAX; i++)
        before[i] = status->started[i];
    EXPECT(!launch(stream, 0));
    for (int i = 0; i < PAGE_STREAMS_MAX; i++) {
        if (status->started[i] != before[i])
            slot = i;
    }
    return slot;
}

/* ---- the process ---- */

/* Where a page of the agent's or the shim's is mapped. */
static const void *find_page(const char *name)
{
    char line[512];
    void *page = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    EXPECT(maps);
    while (maps && !page && fgets(line, sizeof(line), maps)) {
        if (strstr(line, name))
            page = (void *)(uintptr_t)strtoull(line, NULL, 16);
    }
    if (maps)
        fclose(maps);
    EXPECT(page);
    return page;
}

static void find_pages(void)
{
    limits = find_page("/memfd:limits");
    status = find_page("/memfd:gpumux-status");
}

static void open_device(void)
{
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuCtxCreate_v2(&context, 0, 0) == 0);
    EXPECT(!launch(NULL, 0));
    find_pages();
}

static CUstream make_stream(void)
{
    CUstream stream = NULL;
    EXPECT(driver.cuStreamCreate(&stream, 1) == 0 && stream);
    return stream;
}

static void say_launched(void)
{
    printf("launches=%llu\n", (unsigned long long)launched());
    fflush(stdout);
}

static int status_of(pid_t child)
{
    int result = -1;
    return waitpid(child, &result, 0) == child ? result : -1;
}

/* ---- captures ---- */

static void expect_closed_by_capture(CUstream stream, CUstream capturing)
{
    for (int i = 0; i < ROUNDS; i++) {
        CUgraph graph;
        open_page(stream);
        EXPECT(driver.cuStreamBeginCapture_v2(capturing, 0) == 0);
        EXPECT(quick_of_some(stream) == 0);
        EXPECT(driver.cuStreamEndCapture(capturing, &graph) == 0);
    }
    open_page(stream);
}

static void capture_on_another_stream(void)
{
    expect_closed_by_capture(NULL, make_stream());
    expect_closed_by_capture(make_stream(), make_stream());
}

/* All slots are taken, of which the default stream has one. */
static void capture_on_a_stream_without_a_slot(void)
{
    for (int i = 1; i < STREAMS_MAX; i++)
        EXPECT(!launch(make_stream(), 0));
    expect_closed_by_capture(NULL, make_stream());
}

/* ---- streams and contexts ---- */

static void second_context(void)
{
    CUcontext second = NULL;
    CUstream stream = make_stream();
    int slot = charged_slot(NULL);
    open_page(NULL);
    EXPECT(driver.cuCtxCreate_v2(&second, 0, 0) == 0); /* it is current now */
    int second_slot = charged_slot(NULL);
    EXPECT(slot >= 0 && second_slot >= 0 && second_slot != slot);
    EXPECT(quick_of_some(NULL) == 0 && charged_slot(NULL) == second_slot);
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
    EXPECT(quick_of_some(NULL) == 0 && charged_slot(NULL) == slot);
    /* What has a name of its own is still known by that. */
    open_page(stream);
}

/* Another has its handle then. What it spent since it last paid is charged. */
static void end_of_the_stream(void)
{
    CUstream stream = make_stream();
    for (int i = 0; i < ROUNDS; i++) {
        open_page(stream);
        uint64_t before = started();
        EXPECT(driver.cuStreamDestroy_v2(stream) == 0);
        EXPECT(started() > before);
        EXPECT(make_stream() == stream);
        EXPECT(!launch(stream, 0));
    }
}

static CUstream ending;

static void launch_into_ending(void)
{
    EXPECT(!launch(ending, 0));
}

/* As by a handler of a signal that comes when the last mark is written: the stream pays again,
 * and ends then. */
static void end_of_a_stream_that_is_used(void)
{
    ending = make_stream();
    for (int i = 0; i < ROUNDS; i++) {
        open_page(ending);
        seen->on_mark = launch_into_ending;
        EXPECT(driver.cuStreamDestroy_v2(ending) == 0);
        EXPECT(!seen->on_mark);
        EXPECT(make_stream() == ending);
        EXPECT(!launch(ending, 0));
    }
}

/* Before the driver says that it does not end. */
static void end_of_the_context(void)
{
    CUstream stream = make_stream();
    seen->refuses = 1;
    for (int i = 0; i < ROUNDS; i++) {
        open_page(stream);
        EXPECT(driver.cuCtxDestroy_v2(context) != 0);
        EXPECT(!launch(stream, 0));
    }
    open_page(stream);
    seen->refuses = 0;
    EXPECT(driver.cuCtxDestroy_v2(context) == 0);
    EXPECT(!launch(stream, 0));
}

/* A context may have been made where the shim does not see it. So the driver is asked which is
 * current, by the launch behind the one that found that it is time. That is one that is never
 * quick: something is left then of what was paid. */
static void time_to_ask(void)
{
    bool was_quick = false;
    unsigned ticks = 0;
    open_page(NULL);
    for (unsigned i = 1; ticks < TICKS; i++) {
        uint64_t asked = seen->asked;
        bool is_quick = i % IN_A_ROW ? launch(NULL, 0) : launch_cooperative(NULL, 0);
        if (seen->asked != asked) {
            EXPECT(!is_quick && !was_quick);
            ticks++;
        }
        was_quick = is_quick;
    }
}

/* ---- calls, costs and limits ---- */

static void extended_launches(void)
{
    CUstream stream = make_stream();
    bool is_quick = false;
    for (int i = 0; i < ROUNDS && !is_quick; i++) {
        open_with(launch_extended, stream, 0, KERNELS);
        uint64_t plain = seen->launches, extended = seen->launches_ex;
        is_quick = launch_extended(stream, 0);
        EXPECT(seen->launches == plain && seen->launches_ex == extended + 1);
        is_quick &= launch(stream, 0);
        EXPECT(seen->launches == plain + 1 && seen->launches_ex == extended + 1);
    }
    EXPECT(is_quick); /* one of each, behind each other */
}

static void expect_unknown(void)
{
    for (unsigned i = 0; i < KERNELS; i++)
        EXPECT(!launch(NULL, i));
}

static void module_unloaded(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        open_page(NULL);
        EXPECT(driver.cuModuleUnload((CUmodule)&seen) == 0);
        expect_unknown();
    }
}

/* After a module was unloaded, a handle comes to mean a collective. */
static void collective_found(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUfunction function = NULL;
        EXPECT(driver.cuModuleUnload((CUmodule)&seen) == 0);
        open_page(NULL);
        EXPECT(driver.cuModuleGetFunction(&function, (CUmodule)kernel(KERNELS + i),
                                          "ncclDevKernel_AllReduce") == 0);
        expect_unknown();
    }
}

/* A measurement finds that a kernel takes long, and many times what was known. */
static void kernel_became_long(void)
{
    uint32_t short_ns = seen->kernel_ns;
    for (unsigned i = KERNELS; i < KERNELS + ROUNDS; i++) {
        open_with(launch, NULL, i, 1);
        uint64_t measured = seen->measured;
        seen->kernel_ns = 10000000;
        while (seen->measured == measured)
            (void)launch(NULL, i);
        EXPECT(!launch(NULL, i));
        seen->kernel_ns = short_ns;
    }
}

static void order(const char *line)
{
    int orders = open(orders_path, O_WRONLY | O_CLOEXEC);
    EXPECT(orders >= 0 && write(orders, line, strlen(line)) == (ssize_t)strlen(line));
    close(orders);
}

/* To a window that is too small for launches that are paid in advance, and back. */
static void limits_changed(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        open_page(NULL);
        uint64_t sequence = limits->sequence;
        order("window-us 1000\n");
        while (limits->sequence == sequence)
            (void)launch(NULL, 0);
        EXPECT(quick_of_some(NULL) == 0);
        order("window-us 20000\n");
    }
    open_page(NULL);
}

/* Who waits for the device finds all launches counted. */
static void waits(void)
{
    const _Atomic uint64_t *counted = &status->counters[STATUS_launches_kernel];
    for (int i = 0; i < ROUNDS; i++) {
        open_page(NULL);
        EXPECT(*counted < launched());
        EXPECT(driver.cuStreamSynchronize(NULL) == 0);
        EXPECT(*counted == launched());
    }
}

/* ---- children, and the end ---- */

/* It registers anew, and has no quick launches before it has paid for any. */
static void be_child(void)
{
    failures = 0;
    launched_before = seen->launches + seen->launches_ex;
    EXPECT(!launch(NULL, 0));
    find_pages();
    open_page(NULL);
    say_launched();
    exit(failures != 0);
}

static void forks(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        open_page(NULL);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            be_child();
        EXPECT(child > 0 && status_of(child) == 0);
    }
    open_page(NULL);
}

/* Of a thread that launches, in memory that its process shares with its parent. */
struct launches {
    _Atomic uint64_t count;
    _Atomic uint64_t passed[STATES]; /* by a state that it was in before and afterwards */
};

static void *launch_without_end(void *argument)
{
    struct launches *launches = argument;
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
    for (unsigned i = 0;; i++) {
        uint32_t before = status->state;
        (void)launch(NULL, i % KERNELS);
        if (status->state == before)
            launches->passed[before]++;
        launches->count++;
    }
    return NULL;
}

/* Signals come to the thread that does not launch. */
static void be_ended(struct launches *launches, void (*end)(void))
{
    sigset_t signals;
    pthread_t thread;
    uint64_t before = *quick_launches;
    failures = 0;
    open_device();
    open_page(NULL);
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    EXPECT(pthread_create(&thread, NULL, launch_without_end, launches) == 0);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    while (launches->count < (uint64_t)SOME * SOME)
        usleep(1000);
    EXPECT((*quick_launches - before) * 2 > launches->count);
    fflush(stdout);
    if (failures == 0)
        end();
    _exit(1);
}

static void end_by_signal(void)
{
    raise(SIGTERM);
    for (;;)
        pause();
}

static void end_by_exit(void)
{
    exit(STATUS);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One that begins while the process drains is held. Nothing is outstanding: the fastest does not
 * take as long as the longest drain may. */
static void expect_held(void (*end)(void), bool (*is_right)(int result), bool is_for_good)
{
    struct launches *launches =
        mmap(NULL, sizeof(*launches), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t fastest_ms = EXIT_DRAIN_MS;
    EXPECT(launches != MAP_FAILED);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin_ms = now_ms();
        *launches = (struct launches){0};
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            be_ended(launches, end);
        EXPECT(child > 0 && is_right(status_of(child)));
        int64_t took_ms = now_ms() - begin_ms;
        fastest_ms = took_ms < fastest_ms ? took_ms : fastest_ms;
        EXPECT(launches->passed[STATUS_RUNNING] > 0);
        EXPECT(launches->passed[STATUS_DRAINING] == 0);
        EXPECT(!is_for_good || launches->passed[STATUS_CLOSING] == 0);
    }
    EXPECT(fastest_ms < EXIT_DRAIN_MS);
}

static bool is_by_signal(int result)
{
    return WIFSIGNALED(result) && WTERMSIG(result) == SIGTERM;
}

static bool is_by_exit(int result)
{
    return WIFEXITED(result) && WEXITSTATUS(result) == STATUS;
}

static void ends_by_signal(void)
{
    expect_held(end_by_signal, is_by_signal, true);
}

/* Not afterwards: the program may wait for its threads. */
static void ends_by_exit(void)
{
    expect_held(end_by_exit, is_by_exit, false);
}

static const struct {
    const char *name;
    void (*run)(void);
    bool has_device; /* itself, and not its children alone */
} cases[] = {
    {"capture", capture_on_another_stream, true},
    {"capture-without-slot", capture_on_a_stream_without_a_slot, true},
    {"second-context", second_context, true},
    {"stream-ends", end_of_the_stream, true},
    {"used-stream-ends", end_of_a_stream_that_is_used, true},
    {"context-ends", end_of_the_context, true},
    {"tick", time_to_ask, true},
    {"extended", extended_launches, true},
    {"module", module_unloaded, true},
    {"collective", collective_found, true},
    {"long", kernel_became_long, true},
    {"limits", limits_changed, true},
    {"waits", waits, true},
    {"forks", forks, true},
    {"signal", ends_by_signal, false},
    {"exit", ends_by_exit, false},
};

static void run(void (*run_case)(void), bool has_device)
{
    __typeof__(&quick_driver) find_driver;
    driver_calls_load(&driver);
    *(void **)&find_driver = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "quick_driver");
    quick_launches = dlsym(RTLD_DEFAULT, "gpumux_ticks");
    EXPECT(find_driver && quick_launches);
    if (failures > 0)
        return;
    seen = find_driver();
    alarm(PATIENCE_S);
    if (has_device)
        open_device();
    run_case();
    if (has_device)
        say_launched();
}

int main(int argc, char **argv)
{
    orders_path = argc > 2 ? argv[2] : "";
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (argc < 2)
            puts(cases[i].name);
        else if (strcmp(cases[i].name, argv[1]) == 0)
            run(cases[i].run, cases[i].has_device);
    }
    fflush(stdout);
    return failures != 0;
}
