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

#include "shim/sys.h"

enum lock_state { LOCK_FREE, LOCK_TAKEN, LOCK_WAITED_FOR };

struct lock {
    _Atomic uint32_t state; /* enum lock_state; all zero is a free lock */
};

static inline void lock_init(struct lock *lock)
{
    atomic_store(&lock->state, LOCK_FREE);
}

static inline void lock_take(struct lock *lock)
{
    uint32_t expected = LOCK_FREE;
    if (atomic_compare_exchange_strong(&lock->state, &expected, LOCK_TAKEN))
        return;
    while (atomic_exchange(&lock->state, LOCK_WAITED_FOR) != LOCK_FREE)
        (void)sys_futex(&lock->state, FUTEX_WAIT_PRIVATE, LOCK_WAITED_FOR, NULL);
}

/* False if it is taken. */
static inline bool lock_try(struct lock *lock)
{
    uint32_t expected = LOCK_FREE;
    return atomic_compare_exchange_strong(&lock->state, &expected, LOCK_TAKEN);
}

static inline void lock_release(struct lock *lock)
{
    if (atomic_exchange(&lock->state, LOCK_FREE) == LOCK_WAITED_FOR)
        (void)sys_futex(&lock->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}
