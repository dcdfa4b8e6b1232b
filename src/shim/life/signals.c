#include <dlfcn.h>
#include <stddef.h>

#include "shim/hook/resolve.h"
#include "shim/life/process.h"
#include "shim/life/signals.h"
#include "shim/sys/sys.h"
#include "shim/sys/text.h"

typedef void (*signal_handler)(int);

static const int numbers[SIGNALS_COUNT] = {SIGHUP, SIGINT, SIGTERM};

static const char *const names[SIGNALS_FUNCTION_COUNT] = {
#define ROW(name) [SIGNALS_##name] = #name,
    SIGNALS_OLD_STYLE(ROW) ROW(sigaction) ROW(__sigaction)
#undef ROW
};

static void *behind(struct signals *signals, enum signals_function function)
{
    void *real = atomic_load_explicit(&signals->behind[function], memory_order_relaxed);
    if (!real) {
        real = resolve_next(names[function]);
        atomic_store_explicit(&signals->behind[function], real, memory_order_relaxed);
    }
    return real;
}

/* Calls the C library's sigaction, which gives the kernel a way back from the handler. */
static int set_action(struct signals *signals, int number, const struct sigaction *action,
                      struct sigaction *ret_old)
{
    int (*real)(int, const struct sigaction *, struct sigaction *) =
        (int (*)(int, const struct sigaction *, struct sigaction *))behind(signals,
                                                                           SIGNALS_sigaction);
    return real ? real(number, action, ret_old) : -1;
}

/* Returns the index of one of the three signals, or -1. */
static int index_of(int number)
{
    for (int i = 0; i < SIGNALS_COUNT; i++) {
        if (numbers[i] == number)
            return i;
    }
    return -1;
}

static bool is_shims(const struct signals *signals, signal_handler handler)
{
    return handler && handler == atomic_load_explicit(&signals->handler, memory_order_relaxed);
}

/* Puts the shim's handler where the program wants the default action, one thread at a time. Signals
 * are blocked, since a handler that sets an action could run between reading and writing. */
static void settle(struct signals *signals, int i)
{
    struct sigaction there, replaced;
    const struct sigaction shims = {
        .sa_handler = atomic_load(&signals->handler),
        /* A second signal ends the process at once, even while the handler of the first waits. */
        .sa_flags = SA_RESTART | SA_NODEFER | SA_ONSTACK,
    };
    uint64_t mask = sys_block_signals();
    if (set_action(signals, numbers[i], NULL, &there) == 0 && there.sa_handler == SIG_DFL) {
        signals->set[i] = there;
        if (set_action(signals, numbers[i], &shims, &replaced) == 0 &&
            replaced.sa_handler != SIG_DFL && !is_shims(signals, replaced.sa_handler))
            /* An action set without these hooks. */
            (void)set_action(signals, numbers[i], &replaced, NULL);
    }
    sys_restore_signals(mask);
}

/* Takes the lock. Returns false in a child that shares or has copied this process's memory, and has
 * nothing to settle; and in a signal handler that interrupted this thread under the lock: the
 * interrupted code settles afterwards. */
static bool begin(struct signals *signals)
{
    return atomic_load(&signals->process) == sys_getpid() && lock_enter(&signals->lock);
}

static signal_handler set_handler(enum signals_function function, int number,
                                  signal_handler handler)
{
    struct signals *signals = &the_process.signals;
    signal_handler (*real)(int, signal_handler) =
        (signal_handler(*)(int, signal_handler))behind(signals, function);
    int i = index_of(number);
    if (!real)
        return SIG_ERR;
    if (i < 0 || !atomic_load_explicit(&signals->handler, memory_order_relaxed))
        return real(number, handler);
    bool has_begun = begin(signals);
    signal_handler old = real(number, handler);
    if (is_shims(signals, old))
        old = SIG_DFL;
    if (has_begun) {
        settle(signals, i);
        lock_release(&signals->lock);
    }
    return old;
}

/* action and ret_old may be the same memory. */
static int hook_sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
    struct signals *signals = &the_process.signals;
    int i = index_of(number);
    if (i < 0 || !atomic_load_explicit(&signals->handler, memory_order_relaxed))
        return set_action(signals, number, action, ret_old);
    bool has_begun = begin(signals);
    struct sigaction old;
    int r = set_action(signals, number, action, ret_old ? &old : NULL);
    if (r == 0 && ret_old)
        *ret_old = is_shims(signals, old.sa_handler) ? signals->set[i] : old;
    if (has_begun) {
        settle(signals, i);
        lock_release(&signals->lock);
    }
    return r;
}

static int hook___sigaction(int number, const struct sigaction *action, struct sigaction *ret_old)
{
    return hook_sigaction(number, action, ret_old);
}

void signals_start(struct signals *signals, void (*handler)(int))
{
    atomic_store(&signals->handler, handler);
    atomic_store(&signals->process, sys_getpid());
    if (!begin(signals))
        return;
    for (int i = 0; i < SIGNALS_COUNT; i++)
        settle(signals, i);
    lock_release(&signals->lock);
}

void signals_die(int number)
{
    /* The kernel's layout, without a way back: the handler never returns. */
    const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } by_default = {0};
    const uint64_t mask = UINT64_C(1) << (number - 1);
    (void)sys_call(SYS_rt_sigaction, number, (long)&by_default, 0, sizeof(mask), 0, 0);
    (void)sys_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0, sizeof(mask), 0, 0);
    (void)sys_call(SYS_tgkill, sys_getpid(), sys_gettid(), number, 0, 0, 0);
    for (;;)
        (void)sys_call(SYS_exit_group, 128 + number, 0, 0, 0, 0, 0);
}

void signals_freeze(struct signals *signals)
{
    (void)begin(signals);
}

void signals_reset(struct signals *signals)
{
    atomic_store(&signals->process, 0);
    lock_init(&signals->lock);
}

/* ---- exports, and what dlsym finds ---- */

#define DEFINE(name)                                                                               \
    static signal_handler hook_##name(int number, signal_handler handler)                          \
    {                                                                                              \
        return set_handler(SIGNALS_##name, number, handler);                                       \
    }
SIGNALS_OLD_STYLE(DEFINE)

/* Aliases: this library's own references to the plain names may resolve to an earlier library, and
 * headers restrict the use of some names. */
#define EXPORT(name)                                                                               \
    extern __typeof__(hook_##name) export_##name __asm__(#name)                                    \
        __attribute__((alias("hook_" #name), visibility("default")));
SIGNALS_OLD_STYLE(EXPORT)
EXPORT(sigaction)
EXPORT(__sigaction)

static void *const hooks[SIGNALS_FUNCTION_COUNT] = {
#define ROW(name) [SIGNALS_##name] = (void *)hook_##name,
    SIGNALS_OLD_STYLE(ROW) ROW(sigaction) ROW(__sigaction)
#undef ROW
};

bool signals_has(const char *name)
{
    for (int i = 0; i < SIGNALS_FUNCTION_COUNT; i++) {
        if (text_equals(names[i], name))
            return true;
    }
    return false;
}

/* By a pseudo handle, the real function finds the next definition in its order, which includes this
 * library. */
struct calls_route signals_route(void *handle, const char *name, const char *version, void *real)
{
    if (handle == RTLD_DEFAULT || handle == RTLD_NEXT)
        return (struct calls_route){.jump = real};
    void *address =
        version ? ((void *(*)(void *, const char *, const char *))real)(handle, name, version)
                : ((void *(*)(void *, const char *))real)(handle, name);
    for (enum signals_function i = 0; address && i < SIGNALS_FUNCTION_COUNT; i++) {
        if (text_equals(names[i], name) && address == behind(&the_process.signals, i))
            address = hooks[i];
    }
    return (struct calls_route){.value = address};
}
