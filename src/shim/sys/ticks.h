/*
 * Measures the time that launches spend in the shim. Only the libraries of the bench and of a test
 * contain this code; these libraries are built with GPUMUX_TICKS.
 */
#pragma once

#ifdef GPUMUX_TICKS
#include "shim/sys/clock.h"

struct ticks {
    _Atomic uint64_t launches;
    /* Ticks of the processor's counter, without the ticks inside the driver's call. */
    _Atomic uint64_t ticks;
};
extern struct ticks gpumux_ticks;
/* Reads the processor's counter, so that a caller can measure the length of a tick. */
uint64_t gpumux_ticks_now(void);

#define TICKS_BEGIN()       uint64_t ticks_begun = clock_ticks()
#define TICKS_BEGIN_AGAIN() ticks_begun = clock_ticks()
#define TICKS_END(n)                                                                               \
    ((void)(ticks_begun = clock_ticks() - ticks_begun),                                            \
     (void)atomic_fetch_add(&gpumux_ticks.launches, n),                                            \
     (void)atomic_fetch_add(&gpumux_ticks.ticks, ticks_begun))
#else
#define TICKS_BEGIN()       ((void)0)
#define TICKS_BEGIN_AGAIN() ((void)0)
#define TICKS_END(n)        ((void)0)
#endif
