/*
 * The signals that ask a process to end, and the program's actions for these signals. After
 * signals_start() a handler of the shim replaces the default action. The program's own handlers and
 * ignored signals do not change. The program does not see the shim's handler: a query returns the
 * action that the program itself set.
 *
 * To hide its handler, the shim exports the C library's functions that set a signal's action. Each
 * exported function calls the replaced function. The shim does not change an action that a bare
 * system call sets.
 */
#pragma once
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/hook/calls.h"
#include "shim/sys/lock.h"

enum { SIGNALS_COUNT = 3 }; /* SIGHUP, SIGINT, SIGTERM */

enum signals_function {
#define SIGNALS_OLD_STYLE(function)                                                                \
    function(signal) function(bsd_signal) function(ssignal) function(sysv_signal)                  \
        function(__sysv_signal) function(sigset)
#define SIGNALS_FUNCTION(name) SIGNALS_##name,
    SIGNALS_OLD_STYLE(SIGNALS_FUNCTION) SIGNALS_sigaction,
    SIGNALS___sigaction,
    SIGNALS_FUNCTION_COUNT
#undef SIGNALS_FUNCTION
};

struct signals {
    _Atomic(void *) behind[SIGNALS_FUNCTION_COUNT]; /* replaced functions; NULL: not found */
    /* Handler of the shim; NULL: never started, neither in this process nor in a parent. */
    _Atomic(void (*)(int)) handler;
    _Atomic int32_t process; /* process in which the handler is active; 0: none */
    struct lock lock;        /* protects `set` */
    /* The program's own actions while the shim's handler replaces them. */
    struct sigaction set[SIGNALS_COUNT];
};

/* Replaces the default actions by the handler, from now on and in this process. */
void signals_start(struct signals *signals, void (*handler)(int));
/* Ends the process by the signal's default action. Other processes that share its memory, such as
 * the parent after vfork, are unaffected. Safe in a signal handler. */
void signals_die(int number) __attribute__((noreturn));
/* Keeps other threads from setting actions, before the process ends. */
void signals_freeze(struct signals *signals);
/* Resets the state in a forked child. The child inherits the handler, and still hides the handler
 * from the program. */
void signals_reset(struct signals *signals);

/* Returns whether the shim replaces the function with this name. */
bool signals_has(const char *name);
/* Like calls_route(), for names for which signals_has() returns true. */
struct calls_route signals_route(void *handle, const char *name, const char *version, void *real);
