#include "shim/gate.h"

#include "shim/clock.h"

/* ---- looking ---- */

static uint64_t marks_of(const struct status_page *status, bool *ret_is_busy)
{
    uint64_t open = atomic_load_explicit(&status->open_streams, memory_order_acquire), sum = 1;
    bool is_busy = false;
    for (; open; open &= open - 1) {
        int slot = __builtin_ctzll(open);
        /* In this order: what is completed was started before. */
        uint64_t completed = atomic_load_explicit(&status->completed[slot], memory_order_acquire);
        uint64_t started = atomic_load_explicit(&status->started[slot], memory_order_acquire);
        is_busy |= started != completed;
        sum += started + 3 * completed;
    }
    *ret_is_busy = is_busy;
    return sum;
}

struct gate_view gate_look(const struct gate *gate, const struct neighbours *neighbours, int device)
{
    struct gate_view view = {0};
    uint64_t left = atomic_load_explicit(&neighbours->present, memory_order_acquire);
    for (; left; left &= left - 1) {
        int number = __builtin_ctzll(left);
        bool is_busy;
        if (neighbours->devices[number] != (uint32_t)device)
            continue;
        uint64_t sum = marks_of(neighbours->pages[number], &is_busy);
        view.sum += sum;
        if (is_busy && sum != atomic_load_explicit(&gate->ignored[number], memory_order_relaxed))
            view.busy |= UINT64_C(1) << number;
    }
    return view;
}

/* ---- holding ---- */

void gate_ignore(struct gate *gate, const struct neighbours *neighbours, uint64_t stuck)
{
    for (; stuck; stuck &= stuck - 1) {
        int number = __builtin_ctzll(stuck);
        bool is_busy;
        atomic_store_explicit(&gate->ignored[number], marks_of(neighbours->pages[number], &is_busy),
                              memory_order_relaxed);
    }
}

uint64_t gate_hold(struct gate *gate, const struct gate_wait *wait, bool *ret_passed)
{
    struct gate_view first = gate_look(gate, wait->neighbours, wait->device), view = first;
    uint64_t seen =
        atomic_exchange_explicit(&gate->moved[wait->device], first.sum, memory_order_relaxed);
    *ret_passed = false;
    if (view.busy == 0 && (seen == 0 || seen == view.sum || wait->linger_ns == 0))
        return 0;

    uint64_t start_ns = clock_now_ns(), now_ns = start_ns, idle_ns = start_ns;
    bool has_moved = false;
    for (;;) {
        uint64_t most_ns = wait->most_ns;
        if (most_ns > wait->short_ns && now_ns - start_ns >= wait->short_ns &&
            wait->is_short(wait->argument))
            most_ns = wait->short_ns;
        if (view.busy)
            idle_ns = now_ns;
        else if (now_ns - idle_ns >= wait->linger_ns)
            break;
        if (now_ns - start_ns >= most_ns) {
            *ret_passed = view.busy != 0;
            break;
        }
        clock_relax(now_ns - start_ns);
        wait->listen(wait->argument);
        view = gate_look(gate, wait->neighbours, wait->device);
        has_moved |= view.sum != first.sum;
        now_ns = clock_now_ns();
    }
    if (*ret_passed && !has_moved && now_ns - start_ns >= wait->most_ns)
        gate_ignore(gate, wait->neighbours, view.busy);
    atomic_store_explicit(&gate->moved[wait->device], view.sum, memory_order_relaxed);
    return now_ns - start_ns;
}
