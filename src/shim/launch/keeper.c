#include "shim/launch/keeper.h"

#include "shim/life/process.h"
#include "shim/life/thread.h"
#include "shim/sys/clock.h"

enum {
    NAP_NS_MIN = 10 * CLOCK_US_NS,
    NAP_NS_MAX = 50 * CLOCK_US_NS,
    NAP_PARTS = 8, /* a nap lasts at most window / NAP_PARTS, which delays a service by as much */
    REST_NS = 50 * CLOCK_MS_NS, /* time without a launch after which earlier work has ended */
    PASS_NS_MIN = 100 * CLOCK_US_NS,
    PR_SET_NAME_ = 15,
    PR_SET_TIMERSLACK_ = 29,
};

/* ---- the latch in the status page ---- */

static void tell_device(struct process *p, int device, bool is_shut)
{
    _Atomic uint32_t *word = &p->client.status->shut[device];
    atomic_store(word, is_shut);
    /* keeper_open() sets is_over before it opens the latch. */
    if (is_shut && atomic_load(&p->launch->keeper.is_over))
        atomic_store(word, 0);
}

void keeper_open(struct process *p)
{
    if (!p->launch || !p->client.status)
        return;
    atomic_store(&p->launch->keeper.is_over, 1);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        atomic_store(&p->client.status->shut[i], 0);
}

/* ---- the thread ---- */

static struct latch_terms terms_of(const struct launch_device *device)
{
    uint64_t window_ns = atomic_load_explicit(&device->window_ns, memory_order_relaxed);
    return (struct latch_terms){
        .most_ns = atomic_load_explicit(&device->gate_ns, memory_order_relaxed),
        .short_ns = LAUNCH_COLLECTIVE_HOLD_NS,
        .linger_ns = atomic_load_explicit(&device->linger_ns, memory_order_relaxed),
        .pass_ns = window_ns > PASS_NS_MIN ? window_ns : PASS_NS_MIN,
    };
}

static bool is_held(struct process *p, int device)
{
    uint64_t deadline_ms = atomic_load_explicit(&p->client.limits->devices[device].hold_deadline_ms,
                                                memory_order_relaxed);
    return deadline_ms != 0 && clock_read(CLOCK_BOOTTIME) / CLOCK_MS_NS < deadline_ms;
}

/* One poll of all devices. */
struct poll {
    uint64_t shut_ns; /* latest time at which a device was shut; 0: all are open */
    uint64_t sum;     /* sum of all services' marks */
    bool is_working;  /* a service has work outstanding, or the agent holds the task */
};

/* Polls once. Returns the time at which the device's streams were shut; 0: the streams are open. */
static uint64_t watch(struct process *p, int device, struct poll *poll)
{
    struct latch *latch = &p->launch->keeper.latches[device];
    struct gate_watch *watched = &p->launch->keeper.watches[device];
    struct gate *gate = &p->launch->gate;
    const struct neighbours *neighbours = &p->client.neighbours;
    const struct latch_terms terms = terms_of(&p->launch->devices[device]);
    const struct gate_view nobody = {0};
    /* Before memory moves, outstanding work must end. */
    bool is_gated = terms.most_ns > 0 && !atomic_load(&p->launch->keeper.is_over) &&
                    atomic_load(&p->swap.state) == SWAP_OPEN;
    struct due_rule rule;
    const struct due_rule *due = launch_rule(&p->launch->devices[device], &rule);
    const struct latch_look look = {
        .now_ns = clock_now_ns(),
        .view = is_gated ? gate_look(gate, neighbours, device, due) : nobody,
        .is_short = latch->is_shut && launch_has_collective(p, device),
        .is_held = is_gated && is_held(p, device),
    };
    poll->sum += look.view.sum;
    poll->is_working |= look.view.working != 0 || look.view.busy != 0 || look.is_held;
    uint64_t shut_ns = latch->is_shut ? look.now_ns - latch->turn_ns : 0;
    enum latch_turn turn = latch_take(latch, &terms, &look);
    if (turn == LATCH_STAYS)
        return latch->is_shut ? latch->turn_ns : 0;
    tell_device(p, device, latch->is_shut);
    process_count(p, STATUS_held_gate_ns, shut_ns);
    if (turn == LATCH_SHUTS) {
        process_count(p, STATUS_shuts_gate, 1);
        gate_watch(gate, neighbours, device, watched);
    }
    if (turn == LATCH_PASSES) {
        process_count(p, STATUS_passes_gate, 1);
        if (shut_ns >= terms.most_ns)
            gate_ignore(gate, neighbours, watched);
    }
    return latch->is_shut ? latch->turn_ns : 0;
}

static struct poll watch_all(struct process *p)
{
    uint64_t devices = atomic_load_explicit(&p->launch->keeper.devices, memory_order_acquire);
    struct poll poll = {0};
    for (; devices; devices &= devices - 1) {
        uint64_t since_ns = watch(p, __builtin_ctzll(devices), &poll);
        if (since_ns > poll.shut_ns)
            poll.shut_ns = since_ns;
    }
    return poll;
}

/* Returns the pause between two polls while the latch is open, derived from the smallest window. */
static uint64_t nap_ns(struct process *p)
{
    uint64_t devices = atomic_load_explicit(&p->launch->keeper.devices, memory_order_acquire);
    uint64_t shortest_ns = NAP_NS_MAX;
    for (; devices; devices &= devices - 1) {
        const struct launch_device *device = &p->launch->devices[__builtin_ctzll(devices)];
        uint64_t ns = atomic_load_explicit(&device->window_ns, memory_order_relaxed) / NAP_PARTS;
        if (ns < shortest_ns)
            shortest_ns = ns;
    }
    return shortest_ns > NAP_NS_MIN ? shortest_ns : NAP_NS_MIN;
}

/* Sleeps until a wait is put into a stream. */
static void rest(struct keeper *keeper, uint64_t asked)
{
    atomic_store(&keeper->state, KEEPER_ASLEEP);
    while (atomic_load(&keeper->asked) == asked && atomic_load(&keeper->state) == KEEPER_ASLEEP)
        (void)sys_futex(&keeper->state, FUTEX_WAIT_PRIVATE, KEEPER_ASLEEP, NULL);
    atomic_store(&keeper->state, KEEPER_AWAKE);
}

/* ---- sleep while all services are idle ---- */

/* Returns the work between two waits while all services sleep; 0: the keeper must not sleep, since
 * the limits forbid sleep, or since a service would not wake the keeper. */
static uint64_t calm_ns_of(struct process *p)
{
    const struct neighbours *neighbours = &p->client.neighbours;
    uint64_t devices = atomic_load_explicit(&p->launch->keeper.devices, memory_order_acquire);
    uint64_t left = atomic_load_explicit(&neighbours->present, memory_order_acquire);
    uint64_t least_ns = left ? KEEPER_CALM_FREE : 0;
    for (; left; left &= left - 1)
        if (!(neighbours->pages[__builtin_ctzll(left)]->header.features & STATUS_HAS_BURSTS))
            return 0;
    for (; devices; devices &= devices - 1) {
        const struct limits_device *limits = &p->client.limits->devices[__builtin_ctzll(devices)];
        uint32_t us = atomic_load_explicit(&limits->calm_us, memory_order_relaxed);
        uint64_t ns = us == LIMITS_CALM_FREE ? KEEPER_CALM_FREE : (uint64_t)us * CLOCK_US_NS;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns;
}

/* Sleeps until the first neighbour wakes the keeper, or for a while. With several neighbours the
 * sleep is short, since the others cannot end it. */
static void sleep_beside(const struct neighbours *neighbours, uint32_t wakes)
{
    const struct timespec one = {.tv_nsec = 100 * CLOCK_MS_NS}, many = {.tv_nsec = CLOCK_MS_NS};
    uint64_t present = atomic_load_explicit(&neighbours->present, memory_order_acquire);
    if (present == 0)
        return;
    const struct status_page *page = neighbours->pages[__builtin_ctzll(present)];
    (void)sys_futex((_Atomic uint32_t *)(uintptr_t)&page->wakes, FUTEX_WAIT, wakes,
                    (present & (present - 1)) == 0 ? &one : &many);
}

static uint32_t wakes_of(const struct neighbours *neighbours)
{
    uint64_t present = atomic_load_explicit(&neighbours->present, memory_order_acquire);
    return present ? atomic_load(&neighbours->pages[__builtin_ctzll(present)]->wakes) : 0;
}

/* Sleeps while the services' marks keep their sum. A service that launches changes its marks first,
 * and then its count of wakes. */
static void sleep_calmly(struct process *p, uint64_t sum, uint64_t calm_ns)
{
    struct keeper *keeper = &p->launch->keeper;
    uint64_t sequence = atomic_load(&p->client.limits->sequence);
    uint64_t messages = atomic_load(&p->client.limits->messages);
    process_count(p, STATUS_sleeps_gate, 1);
    atomic_store(&keeper->calm_ns, calm_ns);
    for (;;) {
        uint32_t wakes = wakes_of(&p->client.neighbours);
        struct poll poll = watch_all(p);
        if (poll.is_working || poll.sum != sum || atomic_load(&keeper->is_over) ||
            atomic_load(&p->client.limits->sequence) != sequence ||
            atomic_load(&p->client.limits->messages) != messages)
            break;
        sleep_beside(&p->client.neighbours, wakes);
    }
    atomic_store(&keeper->calm_ns, 0);
}

/* The marks of all services at the last polls. */
struct stillness {
    uint64_t sum, since_ns;
};

/* Sleeps if the services have been idle for long enough. Returns whether the keeper slept. */
static bool sleep_if_calm(struct process *p, const struct poll *poll, struct stillness *still,
                          uint64_t now_ns)
{
    if (poll->is_working || poll->sum != still->sum || poll->shut_ns != 0) {
        *still = (struct stillness){.sum = poll->sum, .since_ns = now_ns};
        return false;
    }
    uint64_t calm_ns = now_ns - still->since_ns >= KEEPER_SLEEP_NS ? calm_ns_of(p) : 0;
    if (calm_ns == 0)
        return false;
    sleep_calmly(p, poll->sum, calm_ns);
    return true;
}

/* ---- the loop ---- */

/* Reads changed limits, from the page: the launches' copy is on a cache line that launches
 * write. */
static void read_limits(struct process *p, uint64_t *limits_seen)
{
    uint64_t sequence = atomic_load_explicit(&p->client.limits->sequence, memory_order_relaxed);
    if (sequence == *limits_seen)
        return;
    (void)process_guards_launches(p);
    if (atomic_load_explicit(&p->launch->sequence, memory_order_relaxed) == sequence + 1)
        *limits_seen = sequence;
}

static void *keep(void *argument)
{
    struct process *p = argument;
    struct keeper *keeper = &p->launch->keeper;
    uint64_t asked = 0, asked_ns = clock_now_ns(), limits_seen = 0;
    struct stillness still = {.since_ns = asked_ns};
    (void)sys_call(SYS_prctl, PR_SET_NAME_, (long)"gpumux-gate", 0, 0, 0, 0);
    (void)sys_call(SYS_prctl, PR_SET_TIMERSLACK_, 1, 0, 0, 0, 0);
    for (;;) {
        const struct poll poll = watch_all(p);
        uint64_t now_ns = clock_now_ns(), seen = atomic_load(&keeper->asked);
        bool has_neighbours = atomic_load(&p->client.neighbours.present) != 0;
        if (seen != asked) {
            asked = seen;
            asked_ns = now_ns;
        }
        if (poll.shut_ns == 0 && (!has_neighbours || now_ns - asked_ns >= REST_NS)) {
            rest(keeper, asked);
            continue;
        }
        if (sleep_if_calm(p, &poll, &still, now_ns))
            asked_ns = clock_now_ns();
        /* While a latch is shut, the keeper spins; while all are open, the keeper sleeps for a
         * nap. */
        else if (poll.shut_ns > 0)
            clock_relax(now_ns - poll.shut_ns);
        else
            clock_sleep_ns(nap_ns(p));
        client_poll(&p->client, 1);
        read_limits(p, &limits_seen);
    }
    return NULL;
}

/* ---- launches ---- */

bool keeper_is_there_slowly(struct process *p)
{
    struct keeper *keeper = &p->launch->keeper;
    uint32_t state = KEEPER_NEW;
    if (atomic_load(&keeper->state) != KEEPER_NEW)
        return false;
    bool can_wait = p->calls.has[CALL_cuStreamWaitValue32_v2] && marks_are_by_device(p);
    if (!atomic_compare_exchange_strong(&keeper->state, &state, KEEPER_STARTING))
        return false;
    bool is_started = can_wait && thread_start(keep, p);
    uint32_t starting = KEEPER_STARTING; /* the thread may have changed the state since */
    atomic_compare_exchange_strong(&keeper->state, &starting,
                                   is_started ? KEEPER_AWAKE : KEEPER_OFF);
    return is_started;
}

static void ask(struct keeper *keeper, int device)
{
    uint32_t asleep = KEEPER_ASLEEP;
    if (!(atomic_load_explicit(&keeper->devices, memory_order_relaxed) >> device & 1))
        atomic_fetch_or(&keeper->devices, UINT64_C(1) << device);
    atomic_fetch_add(&keeper->asked, 1);
    if (atomic_load(&keeper->state) == KEEPER_ASLEEP &&
        atomic_compare_exchange_strong(&keeper->state, &asleep, KEEPER_AWAKE))
        (void)sys_futex(&keeper->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

bool keeper_guard(struct process *p, struct stream *stream, uint64_t cost_ns, uint64_t window_ns)
{
    struct keeper *keeper = &p->launch->keeper;
    uint64_t launched_ns = atomic_load_explicit(&stream->unguarded_ns, memory_order_relaxed);
    uint64_t calm_ns = atomic_load_explicit(&keeper->calm_ns, memory_order_relaxed);
    if (__builtin_expect(calm_ns == KEEPER_CALM_FREE, 0)) {
        if (launched_ns != 0)
            atomic_store_explicit(&stream->unguarded_ns, 0, memory_order_relaxed);
        return true;
    }
    if (calm_ns > window_ns)
        window_ns = calm_ns;
    bool is_due = launched_ns == 0 || launched_ns + cost_ns > window_ns ||
                  atomic_load_explicit(&keeper->state, memory_order_relaxed) == KEEPER_ASLEEP;
    if (!is_due) {
        atomic_fetch_add_explicit(&stream->unguarded_ns, cost_ns, memory_order_relaxed);
        return true;
    }
    ask(keeper, stream->device);
    if (!marks_await_zero(p, stream, &p->client.status->shut[stream->device]))
        return false;
    process_count(p, STATUS_waits_gate, 1);
    atomic_store_explicit(&stream->unguarded_ns, cost_ns, memory_order_relaxed);
    return true;
}

void keeper_reset(struct keeper *keeper)
{
    *keeper = (struct keeper){0};
}
