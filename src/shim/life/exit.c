#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "shim/hook/resolve.h"
#include "shim/life/process.h"
#include "shim/life/thread.h"
#include "shim/sys/clock.h"
#include "shim/sys/sys.h"

#define EXPORTED __attribute__((visibility("default")))

enum { INIT_PROCESS = 1 };

/* Registration with exit and with quick_exit. musl lacks the second. */
extern int __cxa_atexit(void (*call)(void *), void *argument, void *library)
    __attribute__((visibility("default")));
extern int __cxa_at_quick_exit(void (*call)(void *), void *library)
    __attribute__((weak, visibility("default")));

static uint64_t now_ms(void)
{
    return clock_now_ns() / CLOCK_MS_NS;
}

static void wake_all(_Atomic uint32_t *word)
{
    (void)sys_futex(word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/* Waits until the word is no longer `value`, or until until_ms. */
static void wait_while(_Atomic uint32_t *word, uint32_t value, uint64_t until_ms)
{
    for (uint64_t now = now_ms(); atomic_load(word) == value && now < until_ms; now = now_ms()) {
        uint64_t left = until_ms - now;
        const struct timespec time = {.tv_sec = (time_t)(left / 1000),
                                      .tv_nsec = (long)(left % 1000) * CLOCK_MS_NS};
        (void)sys_futex(word, FUTEX_WAIT_PRIVATE, value, &time);
    }
}

static void ask(struct exit *exit)
{
    atomic_fetch_add(&exit->asked, 1);
    wake_all(&exit->asked);
}

/* ---- the signal handler ---- */

static void close_by_signal(int number)
{
    struct exit *exit = &the_process.exit;
    uint64_t first = 0, now = now_ms();
    if (atomic_load(&exit->process) != sys_getpid())
        signals_die(number);
    keeper_open(&the_process);
    if (!atomic_compare_exchange_strong(&exit->signal_ms, &first, now)) {
        /* This signal may be the older one, interrupted before it could set signal_ms. */
        if (now >= first + EXIT_SAME_MS)
            signals_die(number);
        return;
    }
    atomic_store(&exit->signal, (uint32_t)number);
    atomic_store(&exit->state, EXIT_CLOSING);
    ask(exit);
    wait_while(&exit->state, EXIT_CLOSING, now + EXIT_PAUSE_MS);
}

/* ---- the thread ---- */

/* Arms a timer in case the driver does not return in time. The timer sends the signal again, to
 * this thread, where it counts as a second signal. */
static void set_alarm(int number)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number};
    const struct itimerspec time = {.it_value = {.tv_sec = EXIT_DRAIN_MS / 1000,
                                                 .tv_nsec = EXIT_DRAIN_MS % 1000 * CLOCK_MS_NS}};
    const uint64_t mask = UINT64_C(1) << (number - 1);
    int timer = -1;
    event._sigev_un._tid = sys_gettid();
    if (sys_call(SYS_timer_create, CLOCK_MONOTONIC, (long)&event, (long)&timer, 0, 0, 0) < 0)
        return;
    (void)sys_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0, sizeof(mask), 0, 0);
    (void)sys_call(SYS_timer_settime, timer, 0, (long)&time, 0, 0, 0);
}

/* Drains twice: a thread may have been on its way into the driver with a launch that was no longer
 * delayed, and another may have waited there for room. */
static void drain(struct process *p)
{
    uint64_t until_ns = clock_now_ns() + (uint64_t)EXIT_DRAIN_MS * CLOCK_MS_NS;
    atomic_store(&p->client.status->state, STATUS_DRAINING);
    keeper_open(p);
    swap_end(p, until_ns);
    for (int i = 0; i < 2; i++) {
        clock_sleep_ns(CLOCK_MS_NS);
        busy_synchronize(p, until_ns);
    }
    atomic_store(&p->client.status->state, STATUS_CLOSING);
}

static void *run_thread(void *argument)
{
    struct process *p = argument;
    struct exit *exit = &p->exit;
    (void)sys_call(SYS_prctl, 15 /* PR_SET_NAME */, (long)"gpumux-exit", 0, 0, 0, 0);
    for (;;) {
        uint32_t asked = atomic_load(&exit->asked);
        if (asked == atomic_load(&exit->done)) {
            (void)sys_futex(&exit->asked, FUTEX_WAIT_PRIVATE, asked, NULL);
            continue;
        }
        int number = (int)atomic_load(&exit->signal);
        if (number != 0)
            set_alarm(number);
        drain(p);
        if (number != 0) {
            signals_freeze(&p->signals);
            signals_die(number);
        }
        atomic_store(&exit->done, asked);
        wake_all(&exit->done);
    }
    return NULL;
}

/* ---- exit ---- */

/* Safe in a signal handler, since programs call exit there. */
static void drain_at_exit(void)
{
    struct exit *exit = &the_process.exit;
    uint32_t open = EXIT_OPEN, draining = EXIT_DRAINING;
    if (atomic_load(&exit->process) != sys_getpid())
        return;
    uint64_t until_ms = now_ms() + EXIT_DRAIN_MS;
    atomic_compare_exchange_strong(&exit->state, &open, EXIT_DRAINING);
    uint32_t done = atomic_load(&exit->done);
    ask(exit);
    wait_while(&exit->done, done, until_ms);
    atomic_compare_exchange_strong(&exit->state, &draining, EXIT_OPEN);
    wake_all(&exit->state);
    if (atomic_load(&exit->signal) != 0)
        clock_sleep_ns((uint64_t)EXIT_DRAIN_MS *
                       CLOCK_MS_NS); /* the signal came first, and decides how the process ends */
}

static void at_exit(void *argument)
{
    (void)argument;
    drain_at_exit();
}

/* Registers late, so that at_exit() runs before the driver's own handlers: they run in reverse
 * order. */
static void register_with_exit(struct exit *exit)
{
    uint32_t no = 0;
    if (!atomic_compare_exchange_strong(&exit->is_registered, &no, 1))
        return;
    (void)__cxa_atexit(at_exit, NULL, NULL);
    if (&__cxa_at_quick_exit)
        (void)__cxa_at_quick_exit(at_exit, NULL);
}

static void end_process(const char *function, int status)
{
    drain_at_exit();
    void (*real)(int) = (void (*)(int))resolve_next(function);
    if (real)
        real(status);
    for (;;)
        (void)sys_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

EXPORTED void _exit(int status)
{
    end_process("_exit", status);
    __builtin_unreachable();
}

EXPORTED void _Exit(int status)
{
    end_process("_Exit", status);
    __builtin_unreachable();
}

/* ---- launches ---- */

static void start(struct process *p)
{
    struct exit *exit = &p->exit;
    if (!thread_start(run_thread, p)) {
        atomic_store(&exit->state, EXIT_OFF);
        return;
    }
    register_with_exit(exit);
    atomic_store(&exit->state, EXIT_OPEN);
    atomic_store(&exit->process, sys_getpid());
    /* Signals that would end a process have no effect on the first process of a pid namespace. */
    if (sys_getpid() != INIT_PROCESS)
        signals_start(&p->signals, close_by_signal);
}

void exit_hold(struct process *p)
{
    uint32_t state = atomic_load(&p->exit.state);
    if (state == EXIT_DRAINING || state == EXIT_CLOSING)
        wait_while(&p->exit.state, state, now_ms() + (uint64_t)2 * EXIT_DRAIN_MS);
}

void exit_check_slowly(struct process *p)
{
    uint32_t state = EXIT_NEW;
    if (atomic_compare_exchange_strong(&p->exit.state, &state, EXIT_STARTING))
        start(p);
    exit_hold(p);
}

void exit_reset(struct exit *exit)
{
    atomic_store(&exit->process, 0);
    atomic_store(&exit->signal, 0);
    atomic_store(&exit->signal_ms, 0);
    atomic_store(&exit->asked, 0);
    atomic_store(&exit->done, 0);
    atomic_store(&exit->state, EXIT_NEW);
}
