/*
 * An ordinary program, as the shim finds them: opens libcuda itself and looks functions up by name.
 * Its first argument selects a check (the table at the end); it prints failures, and then exits
 * with 1. Like any program, it uses nothing of the project but lists.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/shim/expect.h"

extern char **environ;

struct row {
    const char *symbol, *name;
    int version;
    bool is_per_thread;
};

enum { legacy = false, ptds = true, ptsz = true };
static const struct row rows[] = {
#define INTERCEPTED(how, symbol, name, version, variant, ...) {#symbol, #name, version, variant},
#define USED(...)
#include "shim/hook/calls.def"
};
enum { ROW_COUNT = sizeof(rows) / sizeof(*rows) };

#define EXPECT_FOR(name, condition)                                                                \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s: not so: %s\n", __FILE__, __LINE__, name, #condition);               \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static struct driver {
    void *library;
    int (*cuInit)(unsigned);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuMemAlloc_v2)(uint64_t *, size_t);
    int (*cuMemFree_v2)(uint64_t);
    int (*cuMemGetInfo_v2)(size_t *, size_t *);
    int (*cuGetProcAddress)(const char *, void **, int, uint64_t);
    int (*cuGetProcAddress_v2)(const char *, void **, int, uint64_t, int *);
    int (*cuStreamQuery)(void *);
} driver;

static void *find(const char *name)
{
    return dlsym(driver.library, name);
}

static void load_driver(void)
{
    driver.library = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(driver.library);
    driver.cuInit = (int (*)(unsigned))find("cuInit");
    driver.cuDevicePrimaryCtxRetain = (int (*)(void **, int))find("cuDevicePrimaryCtxRetain");
    driver.cuCtxSetCurrent = (int (*)(void *))find("cuCtxSetCurrent");
    driver.cuMemAlloc_v2 = (int (*)(uint64_t *, size_t))find("cuMemAlloc_v2");
    driver.cuMemFree_v2 = (int (*)(uint64_t))find("cuMemFree_v2");
    driver.cuMemGetInfo_v2 = (int (*)(size_t *, size_t *))find("cuMemGetInfo_v2");
    driver.cuGetProcAddress =
        (int (*)(const char *, void **, int, uint64_t))find("cuGetProcAddress");
    driver.cuGetProcAddress_v2 =
        (int (*)(const char *, void **, int, uint64_t, int *))find("cuGetProcAddress_v2");
    driver.cuStreamQuery = (int (*)(void *))find("cuStreamQuery");
}

static void open_context(void)
{
    void *context = NULL;
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
}

static bool is_of(const char *library, void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) && strstr(info.dli_fname, library);
}

static bool is_hook(void *address)
{
    return is_of("libgpumux-cuda.so", address);
}

/* Every way to a function gives the hook, and none gives a hook if the driver lacks the
 * function. */
static void check_lookups(void)
{
    unsigned there = 0;
    dlerror();
    EXPECT(!dlsym(RTLD_DEFAULT, "cuInit") && dlerror());
    EXPECT(!dlsym(RTLD_NEXT, "cuInit") && dlerror());
    load_driver();
    for (int i = 0; i < ROW_COUNT; i++) {
        void *address = find(rows[i].symbol), *proc = NULL;
        int status = -1;
        uint64_t flags = rows[i].is_per_thread ? 2 : 1;
        if (!address) {
            EXPECT_FOR(rows[i].symbol, !dlsym(RTLD_DEFAULT, rows[i].symbol));
            continue;
        }
        there++;
        EXPECT_FOR(rows[i].symbol, is_hook(address));
        EXPECT_FOR(rows[i].symbol, dlsym(RTLD_DEFAULT, rows[i].symbol) == address);
        EXPECT_FOR(rows[i].symbol, dlsym(RTLD_NEXT, rows[i].symbol) == address);
        int r = driver.cuGetProcAddress_v2(rows[i].name, &proc, rows[i].version, flags, &status);
        EXPECT_FOR(rows[i].symbol, r == 0 && status == 0 && proc == address);
        proc = NULL;
        r = driver.cuGetProcAddress(rows[i].name, &proc, rows[i].version, flags);
        EXPECT_FOR(rows[i].symbol, r == 0 && proc == address);
    }
    EXPECT(there > 100);
    EXPECT(is_of("libcuda.so", find("cuDeviceGetCount")));
    EXPECT(!find("cuNoSuchCall") && dlerror());
    EXPECT(!dlvsym(driver.library, "cuNoSuchCall", "X"));
    EXPECT(is_of("libc.so", dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
}

/* The driver's answers for unknown names and versions reach the program unchanged. */
static void check_statuses(void)
{
    void *address = &address;
    int status = -1;
    load_driver();
    EXPECT(driver.cuGetProcAddress_v2("cuNoSuchCall", &address, 13000, 1, &status) == 0);
    EXPECT(!address && status == 1);
    EXPECT(driver.cuGetProcAddress_v2("cuMemAllocAsync", &address, 10000, 1, &status) == 0);
    EXPECT(!address && status == 2);
    EXPECT(driver.cuGetProcAddress_v2("cuMemAlloc", &address, 13000, 1, NULL) == 0);
    EXPECT(address == (void *)driver.cuMemAlloc_v2);
    EXPECT(driver.cuGetProcAddress_v2("cuDeviceGetCount", &address, 13000, 1, NULL) == 0);
    EXPECT(is_of("libcuda.so", address));
    EXPECT(driver.cuGetProcAddress("cuNoSuchCall", &address, 13000, 1) != 0);
    EXPECT(driver.cuGetProcAddress_v2(NULL, &address, 13000, 1, NULL) == 1);
    EXPECT(driver.cuGetProcAddress_v2("cuInit", NULL, 13000, 1, NULL) == 1);
    EXPECT(driver.cuGetProcAddress(NULL, NULL, 13000, 1) == 1);
}

static void check_disabled(void)
{
    load_driver();
    for (int i = 0; i < ROW_COUNT; i++) {
        void *address = find(rows[i].symbol);
        EXPECT_FOR(rows[i].symbol, !address || is_of("libcuda.so", address));
    }
    open_context();
    uint64_t memory = 0;
    EXPECT(driver.cuMemAlloc_v2(&memory, 256 << 20) == 0);
}

/* Makes every call with empty arguments and prints the results, which must be the same with and
 * without the shim. */
static void print_results(void)
{
    load_driver();
    open_context();
    for (int i = 0; i < ROW_COUNT; i++) {
        typedef long any(long, long, long, long, long, long, long, long, long, long, long);
        any *call = (any *)find(rows[i].symbol);
        printf("%s %d\n", rows[i].symbol, call ? (int)call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) : -1);
    }
}

/* Run with GPUMUX_QUOTA_BYTES of 64 MiB plus 600 for a context. */
static void check_quota(void)
{
    const size_t mib = 1 << 20;
    size_t left = 0, total = 0;
    uint64_t a = 0, b = 0, c = 0;
    load_driver();
    EXPECT(driver.cuMemAlloc_v2(&a, mib) != 0); /* not initialised: the driver reports that */
    open_context();
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && left == 64 * mib && total == 664 * mib);
    EXPECT(driver.cuMemAlloc_v2(&a, 32 * mib) == 0);
    EXPECT(driver.cuMemAlloc_v2(&b, 32 * mib) == 0);
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && left == 0 && total == 664 * mib);
    EXPECT(driver.cuMemAlloc_v2(&c, 1) == 2);
    EXPECT(driver.cuMemAlloc_v2(&c, SIZE_MAX) == 2);
    EXPECT(driver.cuMemAlloc_v2(&c, 0) == 1);
    EXPECT(driver.cuMemAlloc_v2(NULL, mib) == 1);
    EXPECT(driver.cuMemFree_v2(a) == 0);
    EXPECT(driver.cuMemFree_v2(a) != 0);
    EXPECT(driver.cuMemFree_v2(0) == 0);
    EXPECT(driver.cuMemAlloc_v2(&c, 33 * mib) == 2);
    EXPECT(driver.cuMemAlloc_v2(&c, 32 * mib) == 0);
    EXPECT(driver.cuMemFree_v2(b) == 0 && driver.cuMemFree_v2(c) == 0);
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && left == 64 * mib);
}

enum { THREADS = 16, ROUNDS = 500 };

static void *race(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)&seed;
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t memory = 0;
        size_t left = 0, total = 0;
        int r = driver.cuMemAlloc_v2(&memory, (size_t)(1 + rand_r(&seed) % 24) << 20);
        EXPECT(r == 0 || r == 2);
        EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && left <= total);
        EXPECT(r != 0 || driver.cuMemFree_v2(memory) == 0);
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREADS];
    size_t left = 0, total = 0;
    void *context = NULL;
    load_driver();
    EXPECT(driver.cuInit(0) == 0);
    EXPECT(driver.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, race, context) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(driver.cuCtxSetCurrent(context) == 0);
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && left == 64 << 20 && total == 664 << 20);
}

static void *first_call(void *argument)
{
    (void)argument;
    EXPECT(driver.cuInit(0) == 0);
    return NULL;
}

/* All threads make their first call at once. */
static void check_first_calls(void)
{
    pthread_t threads[THREADS];
    load_driver();
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, first_call, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static int status_of(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
}

static void in_child(void (*use)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        use();
        fflush(stdout);
        _exit(failures != 0);
    }
    EXPECT(child > 0 && status_of(child) == 0);
}

static void use_after_driver_started(void)
{
    EXPECT(driver.cuInit(0) == 3); /* as without the shim: a driver does not survive a fork */
}

static void use_quota_of_a_child(void)
{
    uint64_t memory = 0;
    open_context();
    EXPECT(driver.cuMemAlloc_v2(&memory, 64 << 20) == 0);
    EXPECT(driver.cuMemAlloc_v2(&memory, 1) == 2);
    in_child(use_after_driver_started);
}

static void *fork_beside_start(void *argument)
{
    (void)argument;
    in_child(use_quota_of_a_child);
    return NULL;
}

static void check_forks(void)
{
    pthread_t thread;
    char *command[] = {(char *)"true", NULL};
    pid_t child = -1;
    load_driver();
    in_child(use_quota_of_a_child);
    EXPECT(driver.cuStreamQuery(NULL) != 0); /* the shim has started, the driver has not */
    in_child(use_quota_of_a_child);
    EXPECT(pthread_create(&thread, NULL, fork_beside_start, NULL) == 0);
    in_child(use_quota_of_a_child);
    pthread_join(thread, NULL);
    open_context();
    in_child(use_after_driver_started);
    EXPECT(posix_spawnp(&child, "true", NULL, NULL, command, environ) == 0 &&
           status_of(child) == 0);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(127);
    }
    EXPECT(status_of(child) == 0);
}

static volatile sig_atomic_t signal_count, lookup_failures;

static void on_signal(int number)
{
    (void)number;
    if (dlsym(driver.library, "cuInit") != (void *)driver.cuInit)
        lookup_failures = 1;
    signal_count++;
}

/* The handler looks functions up while the program makes other calls. It never interrupts a dlsym,
 * which the C library does not support, with or without the shim. */
static void check_signals(void)
{
    const struct itimerval often = {.it_interval = {.tv_usec = 500}, .it_value = {.tv_usec = 500}};
    const struct itimerval never = {0};
    uint64_t memory = 0;
    load_driver();
    open_context();
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; signal_count < 200 && i < 1000000; i++) {
        EXPECT(driver.cuMemAlloc_v2(&memory, 1 << 20) == 0);
        EXPECT(driver.cuMemFree_v2(memory) == 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    EXPECT(signal_count >= 200 && !lookup_failures);
}

/* The driver is unloaded and loaded again, once before its first call and once after. */
static void check_unloading(void)
{
    load_driver();
    dlclose(driver.library);
    load_driver();
    open_context();
    dlclose(driver.library);
    load_driver();
    size_t left = 0, total = 0;
    EXPECT(driver.cuMemGetInfo_v2(&left, &total) == 0 && left == 64 << 20);
}

/* An agent was promised, and there is none. */
static void check_refusal(void)
{
    uint64_t memory = 0;
    load_driver();
    EXPECT(driver.cuInit(0) == 802);
    EXPECT(driver.cuInit(0) == 802);
    EXPECT(driver.cuMemAlloc_v2(&memory, 1) == 802);
}

/* Follows commands, a word on each line, and answers each with a line: for agent_test.c. */
static void obey(void)
{
    static uint64_t held[64];
    static unsigned count;
    char line[64];
    size_t left = 0, total = 0;
    void *context = NULL;
    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "open\n") == 0) {
            int r = driver.cuInit(0);
            r = r ? r : driver.cuDevicePrimaryCtxRetain(&context, 0);
            printf("%d\n", r ? r : driver.cuCtxSetCurrent(context));
        } else if (strncmp(line, "alloc ", 6) == 0 && count < 64) {
            int r = driver.cuMemAlloc_v2(&held[count], (size_t)strtoull(line + 6, NULL, 10));
            count += r == 0;
            printf("%d\n", r);
        } else if (strcmp(line, "free\n") == 0 && count > 0) {
            printf("%d\n", driver.cuMemFree_v2(held[--count]));
        } else if (strcmp(line, "left\n") == 0) {
            printf("%d\n", driver.cuMemGetInfo_v2(&left, &total) ? -1 : (int)(left >> 20));
        } else if (strcmp(line, "fork\n") == 0) {
            pid_t child = fork();
            if (child != 0) {
                (void)status_of(child); /* the child reads on meanwhile */
                printf("%d\n", child > 0 ? 0 : -1);
            } else {
                printf("%d\n", (int)getpid());
            }
        } else if (strncmp(line, "launch ", 7) == 0) {
            int (*launch)(const void *, void *, void **, void **) =
                (int (*)(const void *, void *, void **, void **))find("cuLaunchKernelEx");
            for (unsigned long i = strtoul(line + 7, NULL, 10); i > 0; i--)
                /* A launch of nothing, which the driver refuses. */
                (void)launch(NULL, NULL, NULL, NULL);
            printf("0\n");
        } else if (strcmp(line, "close\n") == 0) {
            for (int fd = 3; fd < 1024; fd++)
                close(fd); /* as daemons do */
            printf("0\n");
        } else {
            return; /* "end" */
        }
        fflush(stdout);
    }
}

static void serve(void)
{
    load_driver();
    setvbuf(stdin, NULL, _IONBF, 0); /* a child reads on where its parent stopped */
    obey();
}

/* A program that queries the device and never uses it. */
static void check_nvml_alone(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device = NULL;
    uint64_t memory[3] = {0}; /* total, free, used */
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*by_index)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    int (*read_memory)(void *, uint64_t *) =
        (int (*)(void *, uint64_t *))dlsym(library, "nvmlDeviceGetMemoryInfo");
    EXPECT(is_hook((void *)read_memory) && is_of("libnvidia-ml.so", (void *)init));
    EXPECT(dlsym(RTLD_NEXT, "nvmlDeviceGetMemoryInfo") == (void *)read_memory);
    EXPECT(!dlsym(library, "nvmlNoSuchCall"));
    EXPECT(init() == 0 && by_index(0, &device) == 0);
    EXPECT(read_memory(device, memory) == 0 && memory[0] == 664 << 20 && memory[1] == 664 << 20);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Prints the duration of the first call, without the driver's own part of it. */
static void print_start(void)
{
    load_driver();
    double start_us = now_us();
    EXPECT(driver.cuStreamQuery(NULL) != 0);
    printf("%.0f\n", now_us() - start_us);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } commands[] = {
        {"lookups", check_lookups},   {"statuses", check_statuses},
        {"disabled", check_disabled}, {"results", print_results},
        {"quota", check_quota},       {"threads", check_threads},
        {"first", check_first_calls}, {"forks", check_forks},
        {"signals", check_signals},   {"unloading", check_unloading},
        {"refusal", check_refusal},   {"nvml", check_nvml_alone},
        {"start", print_start},       {"serve", serve},
    };
    for (size_t i = 0; argc == 2 && i < sizeof(commands) / sizeof(*commands); i++) {
        if (strcmp(commands[i].name, argv[1]) == 0) {
            commands[i].run();
            fflush(stdout);
            return failures != 0;
        }
    }
    fprintf(stderr, "usage: host COMMAND\n");
    return 2;
}
