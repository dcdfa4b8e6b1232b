/*
 * Collectives: kernels that wait, on the device, for kernels of other processes. If the shim
 * delayed the ranks of a task independently of each other, the ranks would deadlock. Collectives
 * therefore pass without delay, and while a collective is outstanding the shim delays no other
 * launch of the task for long.
 *
 * The shim recognises a collective by its name, from the call that returns the kernel's handle:
 * nccl*, nvshmem*, and the patterns of GPUMUX_COLLECTIVES, a comma-separated list in which *
 * matches any text. The prefix of a mangled C++ name is ignored.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A power of two; collectives beyond half of this number count as ordinary kernels. */
enum { COLLECTIVE_HANDLES_MAX = 4096 };

struct collectives {
    _Atomic uint32_t count;
    _Atomic uint32_t is_captured; /* a collective was captured, and any graph may contain it */
    _Atomic uint64_t handles[COLLECTIVE_HANDLES_MAX];
};

/* Notes that the handle now belongs to a kernel of this name. Returns true if the kernel is a
 * collective and the handle was not noted as a collective before. */
bool collective_note(struct collectives *collectives, const void *handle, const char *name);
/* Like collective_note(), for a handle of the same kernel as `other`. */
bool collective_note_same(struct collectives *collectives, const void *handle, const void *other);
bool collective_has(const struct collectives *collectives, const void *handle);
static inline bool collective_is_captured(const struct collectives *collectives)
{
    return atomic_load_explicit(&collectives->is_captured, memory_order_relaxed) != 0;
}
/* Returns whether the name matches a collective; `patterns` are the user's, or NULL. For tests. */
bool collective_matches(const char *name, const char *patterns);
