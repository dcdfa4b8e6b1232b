/*
 * A lock between threads of one process, on a futex: pthread's are not in every C library that the
 * shim is loaded into. A forked child inits the locks that it inherits; none is shared between
 * processes.
 */
#pragma once
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/sys/sys.h"

/* Set by those who wait; the rest of the word is who has the lock (lock_self), 0 nobody. */
enum { LOCK_WAITED_FOR = 1 };

struct lock {
    _Atomic uint32_t state; /* all zero is a free lock */
};

/* In a word with the rest, so that no signal finds a lock without its owner. Two threads whose
 * blocks are a multiple of 64 GiB apart would be taken for one. */
static inline uint32_t lock_self(void)
{
    return (uint32_t)(sys_thread_word() >> 6) << 2 | 2;
}

static inline void lock_init(struct lock *lock)
{
    atomic_store(&lock->state, 0);
}

/* False if it is taken. */
static inline bool lock_try(struct lock *lock)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&lock->state, &none, lock_self());
}

/* False if this very thread has it: it is in a handler of a signal that came meanwhile, and waiting
 * would be for ever. */
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

/* For what handlers of signals do not do, or the driver would not survive either. */
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
