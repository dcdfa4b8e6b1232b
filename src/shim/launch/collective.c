#include "shim/launch/collective.h"

#include <stdlib.h>

enum { PLACE_TAKEN_BACK = 1 }; /* no handle is 1 */

/* A pattern ends at a comma or at the end of the list. */
static bool matches_pattern(const char *name, const char *pattern)
{
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = name;
        } else if (*pattern == *name && *pattern != ',') {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0' || *pattern == ',';
}

static bool matches_any(const char *name, const char *patterns)
{
    while (patterns && *patterns) {
        if (*patterns != ',' && matches_pattern(name, patterns))
            return true;
        while (*patterns && *patterns != ',')
            patterns++;
        if (*patterns == ',')
            patterns++;
    }
    return false;
}

/* _Z40ncclDevKernel… becomes ncclDevKernel… */
static const char *without_mangling(const char *name)
{
    if (name[0] != '_' || name[1] != 'Z')
        return name;
    name += 2;
    while ((*name >= '0' && *name <= '9') || *name == 'N' || *name == 'L')
        name++;
    return name;
}

bool collective_matches(const char *name, const char *patterns)
{
    const char *plain = without_mangling(name);
    return matches_any(plain, "nccl*,nvshmem*") || matches_any(plain, patterns) ||
           matches_any(name, patterns);
}

/* ---- the handles ---- */

static uint32_t place_of(uint64_t handle)
{
    return (uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (COLLECTIVE_HANDLES_MAX - 1);
}

static const _Atomic uint64_t *find(const struct collectives *collectives, uint64_t handle)
{
    uint32_t place = place_of(handle);
    for (uint32_t i = 0; i < COLLECTIVE_HANDLES_MAX; i++) {
        const _Atomic uint64_t *at =
            &collectives->handles[(place + i) & (COLLECTIVE_HANDLES_MAX - 1)];
        uint64_t found = atomic_load_explicit(at, memory_order_relaxed);
        if (found == handle)
            return at;
        if (found == 0)
            return NULL;
    }
    return NULL;
}

/* Adds a handle. Half of the places stay free, so that searches are short. Returns false if the
 * handle was there before, or there is no place. */
static bool add(struct collectives *collectives, uint64_t handle)
{
    uint32_t place = place_of(handle);
    if (find(collectives, handle) ||
        atomic_fetch_add(&collectives->count, 1) >= COLLECTIVE_HANDLES_MAX / 2)
        return false;
    for (uint32_t i = 0; i < COLLECTIVE_HANDLES_MAX; i++) {
        uint64_t expected = 0;
        if (atomic_compare_exchange_strong(
                &collectives->handles[(place + i) & (COLLECTIVE_HANDLES_MAX - 1)], &expected,
                handle))
            return true;
    }
    return false;
}

static void take_back(struct collectives *collectives, uint64_t handle)
{
    const _Atomic uint64_t *at = find(collectives, handle);
    if (at)
        atomic_store(&collectives->handles[at - collectives->handles], PLACE_TAKEN_BACK);
}

bool collective_note(struct collectives *collectives, const void *handle, const char *name)
{
    if (!handle || !name)
        return false;
    if (collective_matches(name, getenv("GPUMUX_COLLECTIVES")))
        return add(collectives, (uint64_t)(uintptr_t)handle);
    take_back(collectives, (uint64_t)(uintptr_t)handle);
    return false;
}

bool collective_note_same(struct collectives *collectives, const void *handle, const void *other)
{
    if (!handle || handle == other)
        return false;
    if (collective_has(collectives, other))
        return add(collectives, (uint64_t)(uintptr_t)handle);
    take_back(collectives, (uint64_t)(uintptr_t)handle);
    return false;
}

bool collective_has(const struct collectives *collectives, const void *handle)
{
    return atomic_load_explicit(&collectives->count, memory_order_relaxed) > 0 &&
           find(collectives, (uint64_t)(uintptr_t)handle) != NULL;
}
