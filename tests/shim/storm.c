/*
 * storm COMMAND PTX [COUNT]: a program with the shim that forks, or is interrupted, at every
 * moment. It prints failures, and then exits with 1. An alarm ends a child that hangs, which counts
 * as a failure. Commands are in the table at the end; PTX is burn.ptx, COUNT the number of children
 * or signals.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/shim/driver_calls.h"
#include "tests/shim/expect.h"

enum {
    MIB = 1 << 20,
    PTX_MAX = 1 << 16,
    PATIENCE_S = 100,
    FORKERS = 4,
    WORKERS = 2,
    SIGNAL_EVERY_US = 300,
    LOOPS_MAX = 1 << 20,
    NOT_INITIALIZED = 3,
};

static struct real_calls driver;
static const char *program, *ptx_path;
static char ptx[PTX_MAX];
static int count;

/* ---- work ---- */

struct work {
    CUcontext context;
    CUstream stream;
    CUfunction burn;
};

static int launch(const struct work *work)
{
    unsigned permille = 10, none = 0;
    uint64_t duration_ns = 1000, buffer = 0;
    void *parameters[] = {&permille, &none, &duration_ns, &buffer, &buffer};
    return driver.cuLaunchKernel(work->burn, 1, 1, 1, 32, 1, 1, 0, work->stream, parameters, NULL);
}

static void open_work(struct work *ret_work)
{
    CUmodule module = NULL;
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&ret_work->context, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(ret_work->context) == 0);
    EXPECT(driver.cuStreamCreate(&ret_work->stream, 1) == 0);
    EXPECT(driver.cuModuleLoadData(&module, ptx) == 0);
    EXPECT(driver.cuModuleGetFunction(&ret_work->burn, module, "gpumux_burn") == 0);
}

/* A process's whole life with the device: one allocation and two launches. */
static void use_device(void)
{
    struct work work = {0};
    CUdeviceptr memory = 0;
    open_work(&work);
    EXPECT(driver.cuMemAlloc_v2(&memory, 2 * MIB) == 0);
    EXPECT(launch(&work) == 0 && launch(&work) == 0);
    EXPECT(driver.cuCtxSynchronize() == 0);
    EXPECT(driver.cuMemFree_v2(memory) == 0);
}

/* ---- forks ---- */

static void expect_child(pid_t child)
{
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    if (status != 0) {
        printf("a child ended with status 0x%x\n", (unsigned)status);
        failures++;
    }
}

static pid_t fork_to(void (*use)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child != 0)
        return child;
    alarm(PATIENCE_S);
    failures = 0;
    use();
    fflush(stdout);
    _exit(failures != 0);
}

static pid_t vfork_and_exec(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execl(program, program, "use", ptx_path, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* A child forks before its own first call, and forks a process that execs after that call. */
static void use_in_generations(void)
{
    expect_child(fork_to(use_device));
    use_device();
    expect_child(vfork_and_exec());
}

/* Only the shim of the parent has started: its children can use the driver. */
static void *fork_often(void *unused)
{
    (void)unused;
    for (int i = 0; i < count / FORKERS; i++)
        expect_child(i % 4 == 3 ? fork_to(use_in_generations) : fork_to(use_device));
    return NULL;
}

static void run_forkers(void *(*run)(void *))
{
    pthread_t threads[FORKERS];
    for (int i = 0; i < FORKERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, run, NULL) == 0);
    for (int i = 0; i < FORKERS; i++)
        pthread_join(threads[i], NULL);
}

static _Atomic bool is_over;

static void *look_often(void *unused)
{
    void *address;
    size_t left, total;
    (void)unused;
    while (!is_over) {
        EXPECT(driver.cuMemGetInfo_v2(&left, &total) == NOT_INITIALIZED);
        EXPECT(driver.cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 1, NULL) == 0);
    }
    return NULL;
}

/* Prints the number of processes that have used the device. */
static void storm_of_children(void)
{
    pthread_t looker;
    EXPECT(pthread_create(&looker, NULL, look_often, NULL) == 0);
    run_forkers(fork_often);
    is_over = true;
    pthread_join(looker, NULL);
    use_device();
    int each = count / FORKERS, families = each / 4;
    printf("used=%d\n", FORKERS * (each - families + 3 * families) + 1);
}

/* ---- forks of a working program ---- */

static struct work shared;

static void *work_often(void *unused)
{
    (void)unused;
    EXPECT(driver.cuCtxSetCurrent(shared.context) == 0);
    for (int i = 0; !is_over; i++) {
        CUdeviceptr memory = 0;
        EXPECT(driver.cuMemAlloc_v2(&memory, 2 * MIB) == 0);
        EXPECT(launch(&shared) == 0);
        EXPECT(driver.cuMemFree_v2(memory) == 0);
        EXPECT(i % 16 != 0 || driver.cuStreamSynchronize(shared.stream) == 0);
    }
    return NULL;
}

/* A driver does not survive a fork: its calls report that, and the child can do everything else. */
static void use_after_fork(void)
{
    CUdeviceptr memory = 0;
    void *address = NULL;
    EXPECT(driver.cuInit(0) == NOT_INITIALIZED);
    EXPECT(driver.cuMemAlloc_v2(&memory, MIB) != 0);
    EXPECT(launch(&shared) != 0);
    EXPECT(driver.cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 1, NULL) == 0 && address);
    EXPECT(signal(SIGTERM, SIG_IGN) == SIG_DFL);
}

static void *fork_beside_work(void *unused)
{
    (void)unused;
    for (int i = 0; i < count / FORKERS; i++)
        expect_child(i % 4 == 3 ? vfork_and_exec() : fork_to(use_after_fork));
    return NULL;
}

static void storm_beside_work(void)
{
    pthread_t workers[WORKERS];
    open_work(&shared);
    for (int i = 0; i < WORKERS; i++)
        EXPECT(pthread_create(&workers[i], NULL, work_often, NULL) == 0);
    run_forkers(fork_beside_work);
    is_over = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    EXPECT(driver.cuCtxSynchronize() == 0);
}

/* ---- signals ---- */

static _Atomic int signal_count;

static void on_signal(int number)
{
    (void)number;
    signal_count++;
}

/* The kernel does not restart interrupted calls: the program sees each interruption. */
static void be_interrupted(void)
{
    const struct itimerval often = {{0, SIGNAL_EVERY_US}, {0, SIGNAL_EVERY_US}};
    struct sigaction action = {.sa_handler = on_signal};
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

static void allocate(const struct work *work)
{
    CUdeviceptr plain = 0, pooled = 0;
    EXPECT(driver.cuMemAlloc_v2(&plain, 2 * MIB) == 0);
    EXPECT(driver.cuMemAllocAsync(&pooled, 2 * MIB, work->stream) == 0);
    EXPECT(driver.cuMemFreeAsync(pooled, work->stream) == 0);
    EXPECT(driver.cuMemFree_v2(plain) == 0);
}

static void launch_some(const struct work *work)
{
    for (int i = 0; i < 8; i++)
        EXPECT(launch(work) == 0);
    EXPECT(driver.cuStreamSynchronize(work->stream) == 0);
}

static call_cuGraphDestroy *destroy_graph;

static void capture(const struct work *work)
{
    CUgraph graph = NULL;
    CUgraphExec ready = NULL;
    CUdeviceptr pooled = 0;
    EXPECT(driver.cuStreamBeginCapture_v2(work->stream, 0) == 0);
    EXPECT(driver.cuMemAllocAsync(&pooled, 2 * MIB, work->stream) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(launch(work) == 0);
    EXPECT(driver.cuMemFreeAsync(pooled, work->stream) == 0);
    EXPECT(driver.cuStreamEndCapture(work->stream, &graph) == 0);
    EXPECT(driver.cuGraphInstantiateWithFlags(&ready, graph, 0) == 0);
    EXPECT(driver.cuGraphLaunch(ready, work->stream) == 0);
    EXPECT(driver.cuStreamSynchronize(work->stream) == 0);
    EXPECT(driver.cuGraphExecDestroy(ready) == 0);
    EXPECT(destroy_graph(graph) == 0);
}

/* Signals also interrupt the registration. Prints the number of kernels and graphs launched. */
static void storm_of_signals(void)
{
    static void (*const steps[])(const struct work *) = {allocate, launch_some, capture};
    const struct itimerval never = {0};
    struct work work = {0};
    long loops[3] = {0};
    destroy_graph = dlsym(dlopen(CUDA_SONAME, RTLD_NOW), "cuGraphDestroy");
    be_interrupted();
    open_work(&work);
    for (int step = 0; step < 3; step++) {
        int until = signal_count + count;
        for (; signal_count < until && loops[step] < LOOPS_MAX; loops[step]++)
            steps[step](&work);
        EXPECT(signal_count >= until);
    }
    EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
    size_t left = 0, total = 0;
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0);
    printf("kernels=%ld graphs=%ld\n", 8 * loops[1] + 4 * loops[2], loops[2]);
}

/* ---- idle programs ---- */

static void print_folder(const char *path, bool is_links)
{
    DIR *folder = opendir(path);
    EXPECT(folder);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char target[256] = "";
        long number = strtol(entry->d_name, NULL, 10);
        if (number == 0 || number == dirfd(folder) || (is_links && number <= STDERR_FILENO))
            continue;
        if (is_links)
            (void)readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        printf("%s %s\n", is_links ? "descriptor" : "thread", target);
    }
    if (folder)
        closedir(folder);
}

static void do_little(void)
{
    EXPECT(signal(SIGTERM, SIG_IGN) == SIG_DFL && signal(SIGTERM, SIG_DFL) == SIG_IGN);
}

/* A program that never uses the device. Prints its threads and descriptors. */
static void be_idle(void)
{
    void *library = dlopen("libm.so.6", RTLD_NOW);
    EXPECT(library && dlsym(library, "cos") && !dlsym(RTLD_DEFAULT, "cuInit"));
    do_little();
    expect_child(fork_to(do_little));
    print_folder("/proc/self/task", false);
    print_folder("/proc/self/fd", true);
}

static void read_ptx(void)
{
    FILE *file = fopen(ptx_path, "r");
    EXPECT(file && fread(ptx, 1, sizeof(ptx) - 1, file) > 0);
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        bool has_driver;
    } commands[] = {
        {"use", use_device, true},
        {"children", storm_of_children, true},
        {"beside", storm_beside_work, true},
        {"signals", storm_of_signals, true},
        {"idle", be_idle, false},
    };
    program = argv[0];
    ptx_path = argc > 2 ? argv[2] : "";
    count = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    for (size_t i = 0; argc > 2 && i < sizeof(commands) / sizeof(*commands); i++) {
        if (strcmp(commands[i].name, argv[1]) != 0)
            continue;
        if (commands[i].has_driver) {
            driver_calls_load(&driver);
            read_ptx();
        }
        commands[i].run();
        fflush(stdout);
        return failures != 0;
    }
    fprintf(stderr, "usage: storm COMMAND PTX [COUNT]\n");
    return 2;
}
