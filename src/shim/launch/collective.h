/*
 * Collectives: kernels that wait, on the device, for kernels of other processes. A task whose ranks
 * were held each for its own reason would wait for itself: such kernels pass, and while one is
 * outstanding nothing else of the task is held for long.
 *
 * Known by name, from whatever gives the program the kernel's handle: nccl*, nvshmem*, and the
 * patterns of GPUMUX_COLLECTIVES, a list with commas in which * stands for anything. A C++ name
 * counts without what its compiler put before it.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { COLLECTIVE_HANDLES_MAX = 4096 }; /* a power of two; those beyond it are held as others are */

struct collectives {
    _Atomic uint32_t count;
    _Atomic uint32_t is_captured; /* one was captured: any graph may have it */
    _Atomic uint64_t handles[COLLECTIVE_HANDLES_MAX];
};

/* The handle is now that of a kernel of this name. True: of a collective, and it was not before. */
bool collective_note(struct collectives *collectives, const void *handle, const char *name);
/* The handle means the same as another one. True: a collective, and it did not before. */
bool collective_note_same(struct collectives *collectives, const void *handle, const void *other);
bool collective_has(const struct collectives *collectives, const void *handle);
static inline bool collective_is_captured(const struct collectives *collectives)
{
    return atomic_load_explicit(&collectives->is_captured, memory_order_relaxed) != 0;
}
/* By itself, for tests: the name is one of a collective, with `patterns` of the user (or NULL). */
bool collective_matches(const char *name, const char *patterns);
