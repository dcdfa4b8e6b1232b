#include "shim/launch/bursts.h"

#include "shim/life/process.h"
#include "shim/sys/clock.h"

static uint32_t company_of(struct process *p, uint32_t device)
{
    return atomic_load_explicit(&p->client.limits->devices[device].company, memory_order_relaxed);
}

/* A keeper reads `wakes` before its last look at the marks, and this function runs after the launch
 * is in the marks: the keeper therefore sees the launch or the new value. */
static void wake_keepers(struct status_page *status)
{
    atomic_fetch_add(&status->wakes, 1);
    (void)sys_futex(&status->wakes, FUTEX_WAKE, INT32_MAX, NULL);
}

void bursts_begin(struct process *p, int device, bool is_graph)
{
    struct bursts *bursts = &p->launch->bursts;
    struct status_page *status = p->client.status;
    if (!lock_enter(&bursts->lock))
        return; /* a signal handler interrupted this function */
    if (atomic_load(&status->burst_begin_ns) == 0) {
        uint64_t now_ns = clock_now_ns(), ended_ns = atomic_load(&bursts->ended_ns);
        bursts->device = device > 0 ? (uint32_t)device : 0;
        bursts->company = company_of(p, bursts->device);
        bursts->kernels = atomic_load(&status->counters[STATUS_launches_kernel]) - !is_graph;
        bursts->graphs = atomic_load(&status->counters[STATUS_launches_graph]) - is_graph;
        atomic_store(&status->burst_begin_ns, now_ns);
        if (now_ns - ended_ns > BURSTS_SLEEP_NS)
            wake_keepers(status);
    }
    lock_release(&bursts->lock);
}

static bool is_idle(const struct status_page *status)
{
    uint64_t open = atomic_load_explicit(&status->open_streams, memory_order_acquire);
    for (; open; open &= open - 1) {
        int slot = __builtin_ctzll(open);
        if (atomic_load_explicit(&status->completed[slot], memory_order_acquire) !=
            atomic_load_explicit(&status->started[slot], memory_order_acquire))
            return false;
    }
    return true;
}

static void count(struct process *p, uint64_t ns)
{
    const struct bursts *bursts = &p->launch->bursts;
    struct status_page *status = p->client.status;
    uint64_t kernels = atomic_load(&status->counters[STATUS_launches_kernel]) - bursts->kernels;
    uint64_t graphs = atomic_load(&status->counters[STATUS_launches_graph]) - bursts->graphs;
    uint32_t company = company_of(p, bursts->device);
    if (company != bursts->company || company == LIMITS_COMPANY_UNKNOWN)
        return;
    int index = company == LIMITS_BESIDE_NOW;
    struct status_bursts *same = &status->bursts[index][bursts_kind(kernels, graphs)];
    atomic_fetch_add_explicit(&same->total_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&same->count, 1, memory_order_release);
    atomic_fetch_add_explicit(&status->burst_lengths[index][bursts_place(ns)], 1,
                              memory_order_relaxed);
}

void bursts_end(struct process *p)
{
    struct bursts *bursts = &p->launch->bursts;
    struct status_page *status = p->client.status;
    if (!is_idle(status) || !lock_enter(&bursts->lock))
        return;
    uint64_t begin_ns = atomic_exchange(&status->burst_begin_ns, 0);
    if (begin_ns != 0) {
        uint64_t now_ns = clock_now_ns();
        atomic_store(&bursts->ended_ns, now_ns);
        count(p, now_ns - begin_ns);
    }
    lock_release(&bursts->lock);
}
