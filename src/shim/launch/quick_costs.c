/* What quick launches know of costs (quick.h): a copy of a part of what cost.c does. */
#include "shim/launch/quick.h"

#define RELAXED memory_order_relaxed

static bool is_of(uint64_t entry, uint64_t key)
{
    return (entry ^ key) >> QUICK_COST_BITS == 0;
}

/* A place of the set: its own, else a free one, else any. */
static int choose_way(const _Atomic uint64_t *set, uint64_t key)
{
    int way = (int)(key >> 8 & (QUICK_WAYS - 1));
    for (int i = 0; i < QUICK_WAYS; i++) {
        uint64_t entry = atomic_load_explicit(&set[i], RELAXED);
        if (is_of(entry, key))
            return i;
        if (entry == 0)
            way = i;
    }
    return way;
}

void quick_learn(struct quick *quick, uint64_t key, uint64_t cost_ns)
{
    if (cost_ns > QUICK_COST_NS_MAX)
        return;
    _Atomic uint64_t *set = quick_set(quick, key);
    uint64_t entry = (key & ~(uint64_t)QUICK_COST_NS_MAX) | cost_ns;
    int way = choose_way(set, key);
    if (atomic_load_explicit(&set[way], RELAXED) != entry)
        atomic_store(&set[way], entry);
}

void quick_forget(struct quick *quick, uint64_t key)
{
    _Atomic uint64_t *set = quick_set(quick, key);
    for (int i = 0; i < QUICK_WAYS; i++) {
        if (is_of(atomic_load_explicit(&set[i], RELAXED), key))
            atomic_store_explicit(&set[i], 0, RELAXED);
    }
}

void quick_forget_all(struct quick *quick)
{
    for (int i = 0; i < QUICK_SETS; i++) {
        for (int way = 0; way < QUICK_WAYS; way++)
            atomic_store_explicit(&quick->costs[i][way], 0, RELAXED);
    }
}
