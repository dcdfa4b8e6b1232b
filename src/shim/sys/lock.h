/*
 * A lock between the threads of one process, on a futex. Some programs that load the shim have a C
 * library without pthread's locks. A forked child initialises the locks that the child inherits;
 * processes share no lock.
 */
#pragma once
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/sys/sys.h"

/* Bit set by waiting threads. The other bits of the word are the lock's owner (lock_self()); 0:
 * free. */
enum { LOCK_WAITED_FOR = 1 };

struct lock {
    _Atomic uint32_t state; /* owner and LOCK_WAITED_FOR; 0: free */
};

/* Returns the calling thread's number as an owner. Lock and owner are one word, so that a signal
 * handler never finds a lock without its owner. Two threads with control blocks a multiple of 64
 * GiB apart would get the same number. */
static inline uint32_t lock_self(void)
{
    return (uint32_t)(sys_thread_word() >> 6) << 2 | 2;
}

static inline void lock_init(struct lock *lock)
{
    atomic_store(&lock->state, 0);
}

/* Takes the lock without waiting. Returns false if the lock is taken. */
static inline bool lock_try(struct lock *lock)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&lock->state, &none, lock_self());
}

/* Takes the lock, and waits if necessary. Returns false if the calling thread already owns the
 * lock: a signal handler interrupted that thread, and would wait for ever. */
static inline bool lock_enter(struct lock *lock)
{
    uint32_t self = lock_self(), state = 0;
    if (atomic_compare_exchange_strong(&lock->state, &state, self))
        return true;
    while ((state & ~(uint32_t)LOCK_WAITED_FOR) != self) {
        if (state == 0) {
            if (atomic_compare_exchange_strong(&lock->state, &state, self | LOCK_WAITED_FOR))
                return true;
        } else if ((state & LOCK_WAITED_FOR) ||
                   atomic_compare_exchange_strong(&lock->state, &state, state | LOCK_WAITED_FOR)) {
            (void)sys_futex(&lock->state, FUTEX_WAIT_PRIVATE, state | LOCK_WAITED_FOR, NULL);
            state = atomic_load(&lock->state);
        }
    }
    return false;
}

/* Takes the lock, and waits if necessary. Only for code that signal handlers do not call, or in
 * which the driver would deadlock too. */
static inline void lock_take(struct lock *lock)
{
    while (!lock_enter(lock))
        (void)sys_futex(&lock->state, FUTEX_WAIT_PRIVATE, atomic_load(&lock->state), NULL);
}

static inline void lock_release(struct lock *lock)
{
    if (atomic_exchange(&lock->state, 0) & LOCK_WAITED_FOR)
        (void)sys_futex(&lock->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}
