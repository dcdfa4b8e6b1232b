/* Time, sleeping and spinning, without a system call where possible. */
#pragma once
#include <stdint.h>
#include <time.h>

#include "shim/sys/sys.h"

enum { CLOCK_US_NS = 1000, CLOCK_MS_NS = 1000000 };

static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* Returns a time up to a few milliseconds in the past, at a much lower cost than clock_now_ns(). */
static inline uint64_t clock_coarse_ns(void)
{
    return clock_read(CLOCK_MONOTONIC_COARSE);
}

/* Reads the processor's counter, which advances by 1 to 5 ticks per nanosecond. Uses no memory. */
static inline uint64_t clock_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static inline void clock_sleep_ns(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};
    (void)sys_call(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
}

/* Pauses between two reads of memory that a device or another process writes. `waited_ns` is the
 * time since the first read: the pause is short at first, when microseconds matter, and later
 * leaves the processor to other threads. */
static inline void clock_relax(uint64_t waited_ns)
{
    enum { SPIN_NS = 50 * CLOCK_US_NS, YIELD_NS = 5 * CLOCK_MS_NS, NAP_NS = 20 * CLOCK_US_NS };
    if (waited_ns >= YIELD_NS)
        clock_sleep_ns(NAP_NS);
    else if (waited_ns >= SPIN_NS)
        (void)sys_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    else
        __builtin_ia32_pause();
}
