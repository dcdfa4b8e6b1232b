/*
 * The signals that ask a process to end, and what the program has set for them. Once
 * signals_start() was called, a handler of the shim stands where the program wants the default
 * action; its own handlers, and signals that it ignores, are not touched. The program does not see
 * it: whatever it asks for, it hears what it set itself.
 *
 * For that the library exports the C library's functions that set a signal's action, each of which
 * does what the one behind it does. What is set without them, by a system call, is as it was set.
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
    _Atomic(void (*)(int)) handler;      /* the shim's; NULL: never started, in no parent either */
    _Atomic int32_t process;             /* in which it stands for the default action; 0: none */
    struct lock lock;                    /* of what follows, among the threads of that process */
    struct sigaction set[SIGNALS_COUNT]; /* by the program, where the shim's handler stands */
};

/* From now on, in this process, the handler stands where the default action does. */
void signals_start(struct signals *signals, void (*handler)(int));
/* Ends the process by the signal, with the default action; of other processes that have its memory,
 * such as its parent in vfork, nothing changes. Safe in a handler. */
void signals_die(int number) __attribute__((noreturn));
/* Before the process ends: keeps others from setting actions. */
void signals_freeze(struct signals *signals);
/* In a child. The handler is inherited, and what the program sees of it is too. */
void signals_reset(struct signals *signals);

/* Whether dlsym and dlvsym have this library's function to offer for the name. */
bool signals_has(const char *name);
/* The answer then, as calls_route() gives it. */
struct calls_route signals_route(void *handle, const char *name, const char *version, void *real);
