/*
 * exit_program HOW [KERNELS KERNEL_US]: queues kernels, says "ready", and ends or is ended as its
 * first argument says (the table at the end). For exit_test.c, with the shim and without.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/emu/driver_api.h"

static struct driver_api api;
static unsigned kernels, kernel_us;
static int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static int launch(void)
{
    return driver_api_burn(&api, NULL, 100, 0, kernel_us * UINT64_C(1000));
}

static void say(const char *line)
{
    EXPECT(write(1, line, strlen(line)) == (ssize_t)strlen(line));
}

static void queue(void)
{
    for (unsigned i = 0; i < kernels; i++)
        EXPECT(launch() == 0);
}

static void queue_and_say(void)
{
    queue();
    say("ready\n");
}

/* In short sleeps: ThreadSanitizer delays a signal until the next call, and thus until the end of a
 * long sleep. */
static void sleep_forever(void)
{
    for (;;)
        usleep(10000);
}

static void wait_forever(void)
{
    queue_and_say();
    sleep_forever();
}

/* A signal that ends the program does not return from here. */
static void wait_once(void)
{
    queue_and_say();
    pause();
}

static void end_by_exit(void)
{
    queue_and_say();
    exit(7);
}

static void end_by_return(void)
{
    queue_and_say();
    failures = 7;
}

static void end_by_quick_exit(void)
{
    queue_and_say();
    quick_exit(7);
}

static void end_at_once(void)
{
    queue_and_say();
    _exit(7);
}

static void end_by_abort(void)
{
    queue_and_say();
    abort();
}

/* One of two holders of the context releases it. */
static void release_one(void)
{
    void *context = NULL;
    EXPECT(api.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    queue();
    EXPECT(api.cuDevicePrimaryCtxRelease_v2(0) == 0);
    say("ready\n");
}

static void release_and_wait(void)
{
    release_one();
    sleep_forever();
}

static void release_and_exit(void)
{
    release_one();
    exit(7);
}

/* The context ends, and the next one may get its handle. */
static void reopen_and_exit(void)
{
    EXPECT(launch() == 0);
    EXPECT(api.cuDevicePrimaryCtxRelease_v2(0) == 0);
    driver_api_open_device(&api);
    end_by_exit();
}

/* While the capture is open, the driver refuses to wait for the context. */
static void open_capture(void)
{
    enum { NON_BLOCKING = 1, GLOBAL = 0 };
    void *stream = NULL;
    queue();
    EXPECT(api.cuStreamCreate(&stream, NON_BLOCKING) == 0);
    EXPECT(api.cuStreamBeginCapture_v2(stream, GLOBAL) == 0);
    say("ready\n");
}

static void capture_and_wait(void)
{
    open_capture();
    sleep_forever();
}

static void capture_and_exit(void)
{
    open_capture();
    exit(7);
}

/* ---- the program's own handlers ---- */

static uint64_t memory;

/* Uses the device in the handler: not recommended, but programs do it. */
static void save_and_exit(int number)
{
    unsigned checkpoint = 0;
    (void)number;
    EXPECT(launch() == 0);
    EXPECT(api.cuMemcpyDtoH_v2(&checkpoint, memory, sizeof(checkpoint)) == 0);
    say(checkpoint == 4711 ? "saved\n" : "not saved\n");
    exit(failures ? 1 : 7);
}

static void save_and_raise(int number)
{
    unsigned checkpoint = 0;
    EXPECT(launch() == 0);
    EXPECT(api.cuMemcpyDtoH_v2(&checkpoint, memory, sizeof(checkpoint)) == 0);
    say(checkpoint == 4711 ? "saved\n" : "not saved\n");
    queue();
    signal(number, SIG_DFL);
    raise(number);
}

static void handle_by(void (*handler)(int))
{
    EXPECT(api.cuMemAlloc_v2(&memory, 4096) == 0);
    EXPECT(api.cuMemsetD32_v2(memory, 4711, 1024) == 0);
    signal(SIGTERM, handler);
    queue_and_say();
    sleep_forever();
}

static void handle_and_exit(void)
{
    handle_by(save_and_exit);
}

static void handle_and_raise(void)
{
    handle_by(save_and_raise);
}

/* ---- threads inside the driver ---- */

static void *launch_without_end(void *context)
{
    sigset_t signals;
    EXPECT(api.cuCtxSetCurrent(context) == 0);
    queue();
    sigfillset(&signals);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    say("ready\n");
    while (launch() == 0)
        ;
    return NULL;
}

/* The only thread that takes signals launches more than the queue has room for. */
static void wait_for_launches(void)
{
    sigset_t signals;
    pthread_t thread;
    void *context = NULL;
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    EXPECT(api.cuCtxGetCurrent(&context) == 0);
    EXPECT(pthread_create(&thread, NULL, launch_without_end, context) == 0);
    pthread_join(thread, NULL);
}

/* Launches kernels whose costs the shim knows. */
static atomic_uint launched;

static void launch_known(void)
{
    for (unsigned i = 0; i < kernels; i++)
        EXPECT(launch() == 0 && launch() == 0 && api.cuCtxSynchronize() == 0);
    queue_and_say();
    while (launch() == 0)
        launched++;
}

static void *launch_known_in(void *context)
{
    EXPECT(api.cuCtxSetCurrent(context) == 0);
    launch_known();
    return NULL;
}

/* Exits while another thread launches such kernels. */
static void exit_beside_known(void)
{
    pthread_t thread;
    void *context = NULL;
    EXPECT(api.cuCtxGetCurrent(&context) == 0);
    EXPECT(pthread_create(&thread, NULL, launch_known_in, context) == 0);
    while (launched < kernels)
        usleep(1000);
    exit(7);
}

static void wait_in_driver(void)
{
    queue_and_say();
    for (;;)
        EXPECT(api.cuCtxSynchronize() == 0 && launch() == 0);
}

/* Would wait for a thread that launches. */
static pthread_t launcher;
static atomic_bool is_over;

static void *launch_until_over(void *context)
{
    EXPECT(api.cuCtxSetCurrent(context) == 0);
    while (!is_over)
        EXPECT(launch() == 0 && api.cuCtxSynchronize() == 0);
    return NULL;
}

static void join_launcher(void)
{
    is_over = true;
    pthread_join(launcher, NULL);
}

static void end_by_joining(void)
{
    void *context = NULL;
    EXPECT(api.cuCtxGetCurrent(&context) == 0);
    atexit(join_launcher);
    queue_and_say();
    EXPECT(pthread_create(&launcher, NULL, launch_until_over, context) == 0);
    exit(7);
}

/* ---- signals that are not for the shim ---- */

static void read_signals(void)
{
    struct signalfd_siginfo info;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    EXPECT(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC);
    EXPECT(fd >= 0);
    queue_and_say();
    EXPECT(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGTERM);
    EXPECT(launch() == 0);
    exit(failures ? 1 : 7);
}

/* Blocks the signal, says so, and waits for it: a signal that comes in between is not lost. */
static void await_signal(int awaited)
{
    sigset_t signals;
    int number = 0;
    sigemptyset(&signals);
    sigaddset(&signals, awaited);
    EXPECT(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0);
    say("ready\n");
    EXPECT(sigwait(&signals, &number) == 0 && number == awaited);
}

static void await_signals(void)
{
    queue();
    await_signal(SIGTERM);
    EXPECT(launch() == 0);
    exit(failures ? 1 : 7);
}

/* Ignores SIGTERM; the next signal is SIGUSR1. */
static void ignore(void)
{
    signal(SIGTERM, SIG_IGN);
    queue();
    await_signal(SIGUSR1);
    EXPECT(signal(SIGTERM, SIG_DFL) == SIG_IGN);
    EXPECT(launch() == 0);
    exit(failures ? 1 : 7);
}

/* ---- the program's view ---- */

static void own_handler(int number)
{
    (void)number;
}

/* ThreadSanitizer changes flags, with and without the shim. */
static bool is_set(int number, void (*handler)(int), int flags)
{
    struct sigaction action;
#ifdef __SANITIZE_THREAD__
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == handler;
#endif
    memset(&action, 0xff, sizeof(action));
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == handler &&
           (action.sa_flags & (SA_RESTART | SA_NODEFER | SA_ONSTACK | SA_SIGINFO)) == flags;
}

static void check_one(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NODEFER}, both;
    struct sigaction *volatile same = &both; /* as some programs do */
    EXPECT(is_set(number, SIG_DFL, 0));
    EXPECT(signal(number, own_handler) == SIG_DFL);
    EXPECT(is_set(number, own_handler, SA_RESTART));
    EXPECT(sigaction(number, &action, &both) == 0 && both.sa_handler == own_handler);
    EXPECT(is_set(number, SIG_DFL, SA_NODEFER));
    both = (struct sigaction){.sa_handler = own_handler};
    EXPECT(sigaction(number, same, &both) == 0 && both.sa_handler == SIG_DFL &&
           (both.sa_flags & SA_NODEFER));
    EXPECT(sigaction(number, same, &both) == 0 && both.sa_handler == own_handler);
    EXPECT(signal(number, SIG_IGN) == SIG_DFL);
    EXPECT(is_set(number, SIG_IGN, SA_RESTART));
    EXPECT(signal(number, SIG_DFL) == SIG_IGN);
    EXPECT(signal(number, SIG_DFL) == SIG_DFL);
#ifndef __SANITIZE_THREAD__
    EXPECT(signal(number, SIG_ERR) == SIG_ERR && errno == EINVAL);
#endif
    EXPECT(sigaction(number, NULL, NULL) == 0);
    action.sa_flags = 0;
    EXPECT(sigaction(number, &action, NULL) == 0);
}

static int status_of(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
}

/* A parent's shim does not end its child, nor a child's signal its parent. */
static void check_children(int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    pid_t child = fork();
    if (child == 0) {
        check_one(number);
        raise(number);
        _exit(failures != 0);
    }
    int status = status_of(child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == number);
    child = vfork();
    if (child == 0) {
        raise(number);
        _exit(0);
    }
    status = status_of(child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == number);
    child = fork();
    if (child == 0) {
        char *const nothing[] = {NULL};
        execle("/bin/sh", "sh", "-c", "kill -$0 $$; exit 3", text, (char *)NULL, nothing);
        _exit(127);
    }
    status = status_of(child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == number);
    EXPECT(launch() == 0);
}

/* Every function that sets an action, by any way to the function. */
static void check_functions(void)
{
    static const char *const names[] = {"signal",      "bsd_signal",    "ssignal",
                                        "sysv_signal", "__sysv_signal", "sigset"};
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    void *handles[] = {libc, RTLD_DEFAULT};
    EXPECT(libc);
    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(*names); i++) {
        void (*(*set)(int, void (*)(int)))(int) =
            (void (*(*)(int, void (*)(int)))(int))dlsym(handles[i % 2], names[i / 2]);
        if (!set)
            continue; /* the C library lacks it */
        EXPECT(set(SIGTERM, own_handler) == SIG_DFL && set(SIGTERM, SIG_DFL) == own_handler);
        EXPECT(set(SIGTERM, SIG_DFL) == SIG_DFL);
    }
    int (*act)(int, const struct sigaction *, struct sigaction *) =
        (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(libc, "sigaction");
    struct sigaction action;
    EXPECT(act(SIGTERM, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
}

static void check_view(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        check_one(numbers[i]);
    EXPECT(launch() == 0);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        check_one(numbers[i]);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers) - 1; i++)
        check_children(numbers[i]);
    check_functions();
    EXPECT(signal(SIGKILL, SIG_DFL) == SIG_ERR);
    EXPECT(setuid(getuid()) == 0); /* all threads take part in it, the shim's too */
    exit(failures ? 1 : 7);
}

/* Many threads set actions while signals arrive. */
static void *the_context;

static void *set_often(void *argument)
{
    int number = *(int *)argument;
    EXPECT(api.cuCtxSetCurrent(the_context) == 0);
    for (int i = 0; i < 2000; i++) {
        void (*old)(int) = signal(number, own_handler);
        EXPECT(old == SIG_IGN);
        raise(number);
        EXPECT(signal(number, SIG_IGN) == own_handler);
        EXPECT(i % 100 != 0 || launch() == 0);
    }
    return NULL;
}

static void check_threads(void)
{
    int numbers[] = {SIGHUP, SIGINT, SIGTERM};
    pthread_t threads[3];
    EXPECT(api.cuCtxGetCurrent(&the_context) == 0 && launch() == 0);
    for (int i = 0; i < 3; i++) {
        EXPECT(signal(numbers[i], SIG_IGN) == SIG_DFL);
        EXPECT(pthread_create(&threads[i], NULL, set_often, &numbers[i]) == 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    exit(failures ? 1 : 7);
}

/* A thread sets actions, and a handler that arrives at any point does too. The handler itself ends
 * the signals: if it takes longer than their period, the thread makes no progress. */
enum { HANDLED_MAX = 20000, HANDLED_SECONDS_MAX = 5 };
static atomic_uint handled;

static void set_in_handler(int number)
{
    const struct itimerval never = {0};
    (void)number;
    EXPECT(signal(SIGINT, SIG_IGN) == SIG_IGN);
    if (++handled == HANDLED_MAX)
        EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void check_handlers(void)
{
    const struct itimerval often = {.it_interval = {.tv_usec = 50}, .it_value = {.tv_usec = 50}};
    EXPECT(signal(SIGINT, SIG_IGN) == SIG_DFL && signal(SIGALRM, set_in_handler) == SIG_DFL);
    EXPECT(launch() == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    time_t until = time(NULL) + HANDLED_SECONDS_MAX;
    while (handled < HANDLED_MAX && time(NULL) < until) {
        EXPECT(signal(SIGTERM, own_handler) == SIG_DFL);
        EXPECT(signal(SIGTERM, SIG_DFL) == own_handler);
    }
    EXPECT(handled > 0);
    exit(failures ? 1 : 7);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {
        {"wait", wait_forever},
        {"wait-once", wait_once},
        {"exit", end_by_exit},
        {"return", end_by_return},
        {"quick_exit", end_by_quick_exit},
        {"_exit", end_at_once},
        {"abort", end_by_abort},
        {"release-wait", release_and_wait},
        {"release-exit", release_and_exit},
        {"reopen-exit", reopen_and_exit},
        {"capture-wait", capture_and_wait},
        {"capture-exit", capture_and_exit},
        {"save-exit", handle_and_exit},
        {"save-raise", handle_and_raise},
        {"launching", wait_for_launches},
        {"synchronising", wait_in_driver},
        {"known", launch_known},
        {"known-exit", exit_beside_known},
        {"joining", end_by_joining},
        {"signalfd", read_signals},
        {"sigwait", await_signals},
        {"ignore", ignore},
        {"view", check_view},
        {"threads", check_threads},
        {"handlers", check_handlers},
    };
    /* ThreadSanitizer makes its signal state at a thread's first waiting call, and loses a signal
     * that comes meanwhile. */
    usleep(1);
    kernels = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    kernel_us = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(*ways); i++) {
        if (strcmp(ways[i].name, argv[1]) == 0) {
            driver_api_load(&api);
            driver_api_open_device(&api);
            ways[i].run();
            return failures;
        }
    }
    fprintf(stderr, "usage: exit_program HOW [KERNELS KERNEL_US]\n");
    return 2;
}
