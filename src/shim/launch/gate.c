#include "shim/launch/gate.h"

#include "shim/sys/clock.h"

/* ---- polling ---- */

/* Returns whether the busy slot was found stuck at that mark. `stuck` contains the service's bits;
 * in most calls its bit is 0. */
static bool is_stuck(const struct gate *gate, int number, uint64_t stuck, int slot,
                     uint64_t completed)
{
    return (stuck >> slot & 1) != 0 &&
           atomic_load_explicit(&gate->stuck_at[number][slot], memory_order_acquire) == completed;
}

/* Returns the slots that are busy and not stuck. */
static uint64_t busy_slots(const struct gate *gate, const struct neighbours *neighbours, int number,
                           uint64_t *ret_sum)
{
    const struct status_page *status = neighbours->pages[number];
    uint64_t stuck = atomic_load_explicit(&gate->stuck[number], memory_order_acquire);
    uint64_t open = atomic_load_explicit(&status->open_streams, memory_order_acquire), sum = 1;
    uint64_t busy = 0;
    for (; open; open &= open - 1) {
        int slot = __builtin_ctzll(open);
        /* `completed` is read first, so that it never exceeds `started`. */
        uint64_t completed = atomic_load_explicit(&status->completed[slot], memory_order_acquire);
        uint64_t started = atomic_load_explicit(&status->started[slot], memory_order_acquire);
        if (started != completed && !is_stuck(gate, number, stuck, slot, completed))
            busy |= UINT64_C(1) << slot;
        sum += started + 3 * completed;
    }
    *ret_sum = sum;
    return busy;
}

struct gate_view gate_look(const struct gate *gate, const struct neighbours *neighbours, int device,
                           const struct due_rule *rule)
{
    struct gate_view view = {0};
    uint64_t now_ns = rule ? clock_now_ns() : 0;
    uint64_t left = atomic_load_explicit(&neighbours->present, memory_order_acquire);
    for (; left; left &= left - 1) {
        int number = __builtin_ctzll(left);
        uint64_t sum, bit = UINT64_C(1) << number;
        if (neighbours->devices[number] != (uint32_t)device)
            continue;
        bool is_busy = busy_slots(gate, neighbours, number, &sum) != 0;
        if (is_busy)
            view.working |= bit;
        if (rule ? due_is_near(neighbours->pages[number], rule, now_ns, is_busy) : is_busy)
            view.busy |= bit;
        view.sum += sum;
    }
    return view;
}

/* ---- stuck slots ---- */

static uint64_t completed_of(const struct neighbours *neighbours, int number, int slot)
{
    return atomic_load_explicit(&neighbours->pages[number]->completed[slot], memory_order_acquire);
}

void gate_watch(const struct gate *gate, const struct neighbours *neighbours, int device,
                struct gate_watch *ret_watch)
{
    uint64_t left = gate_look(gate, neighbours, device, NULL).working;
    ret_watch->count = 0;
    for (; left; left &= left - 1) {
        int number = __builtin_ctzll(left);
        uint64_t sum, busy = busy_slots(gate, neighbours, number, &sum);
        for (; busy && ret_watch->count < GATE_WATCHED_MAX; busy &= busy - 1) {
            int slot = __builtin_ctzll(busy);
            uint32_t i = ret_watch->count++;
            ret_watch->numbers[i] = (uint8_t)number;
            ret_watch->slots[i] = (uint8_t)slot;
            ret_watch->completed[i] = completed_of(neighbours, number, slot);
        }
    }
}

void gate_ignore(struct gate *gate, const struct neighbours *neighbours,
                 const struct gate_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        int number = watch->numbers[i], slot = watch->slots[i];
        uint64_t started =
            atomic_load_explicit(&neighbours->pages[number]->started[slot], memory_order_acquire);
        if (completed_of(neighbours, number, slot) != watch->completed[i] ||
            started == watch->completed[i])
            continue;
        atomic_store_explicit(&gate->stuck_at[number][slot], watch->completed[i],
                              memory_order_release);
        atomic_fetch_or_explicit(&gate->stuck[number], UINT64_C(1) << slot, memory_order_release);
    }
}

/* ---- waiting ---- */

uint64_t gate_hold(struct gate *gate, const struct gate_wait *wait, bool *ret_passed)
{
    struct gate_view first = gate_look(gate, wait->neighbours, wait->device, wait->rule);
    struct gate_view view = first;
    uint64_t seen =
        atomic_exchange_explicit(&gate->moved[wait->device], first.sum, memory_order_relaxed);
    *ret_passed = false;
    if (view.busy == 0 && (seen == 0 || seen == view.sum || wait->linger_ns == 0))
        return 0;

    struct gate_watch watch;
    gate_watch(gate, wait->neighbours, wait->device, &watch);
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns, idle_ns = start_ns;
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
        view = gate_look(gate, wait->neighbours, wait->device, wait->rule);
        now_ns = clock_now_ns();
    }
    if (*ret_passed && now_ns - start_ns >= wait->most_ns)
        gate_ignore(gate, wait->neighbours, &watch);
    atomic_store_explicit(&gate->moved[wait->device], view.sum, memory_order_relaxed);
    return now_ns - start_ns;
}
