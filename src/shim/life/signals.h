/*
 * The signals that ask a process to end, and the actions that the program has set for them. After
 * signals_start() a handler of the shim takes the place of the default action. The program's own
 * handlers, and signals that it ignores, stay as they are. The program does not see the shim's
 * handler: a query returns the action that the program itself set.
 *
 * To hide its handler, the library exports the C library's functions that set a signal's action;
 * each calls the function that it replaces. An action set by a bare system call stays unchanged.
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
    _Atomic(void *) behind[SIGNALS_FUNCTION_COUNT];
    /* Handler of the shim; NULL: never started, neither here nor in a parent. */
    _Atomic(void (*)(int)) handler;
    _Atomic int32_t process; /* process in which the handler replaces the default action; 0: none */
    struct lock lock;        /* protects `set` among the threads of that process */
    /* The program's own action, while the shim's handler stands in its place. */
    struct sigaction set[SIGNALS_COUNT];
};

/* Puts the handler in the place of the default action, from now on and in this process. */
void signals_start(struct signals *signals, void (*handler)(int));
/* Ends the process by the signal with its default action. Processes that share its memory, such as
 * the parent after vfork, are unaffected. Safe in a signal handler. */
void signals_die(int number) __attribute__((noreturn));
/* Keeps other threads from setting actions, before the process ends. */
void signals_freeze(struct signals *signals);
/* Resets the state in a forked child. The child inherits the handler, and still hides it from the
 * program. */
void signals_reset(struct signals *signals);

/* Returns whether dlsym and dlvsym offer a function of this library under the name. */
bool signals_has(const char *name);
/* Returns the result of such a dlsym or dlvsym, as calls_route() does. */
struct calls_route signals_route(void *handle, const char *name, const char *version, void *real);
