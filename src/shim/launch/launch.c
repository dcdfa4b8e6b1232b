#include "shim/launch/launch.h"

#include <signal.h>

#include "shim/life/process.h"
#include "shim/sys/clock.h"

#define RELAXED memory_order_relaxed
/* Keeps a function out of the code that every launch runs: a program's own code evicts that code
 * from the caches, and each line must be fetched again. */
#define RARELY __attribute__((noinline, cold))
#define INLINE inline __attribute__((always_inline))

/* ---- limits ---- */

static void read_gate(struct launch_device *device, const struct limits_device *limits)
{
    uint32_t rule = atomic_load_explicit(&limits->gate_rule, RELAXED);
    uint32_t linger_us = atomic_load_explicit(&limits->linger_us, RELAXED);
    /* By the rule DUE, idle time says nothing about danger. */
    uint64_t linger_ns = rule == LIMITS_GATE_DUE ? 0 : (uint64_t)linger_us * CLOCK_US_NS;
    uint32_t place = atomic_load_explicit(&limits->gate_place, RELAXED);
    atomic_store_explicit(&device->linger_ns, linger_ns, RELAXED);
    atomic_store_explicit(&device->gate_place, place == LIMITS_GATE_HOST, RELAXED);
    atomic_store_explicit(&device->gate_rule, rule == LIMITS_GATE_DUE, RELAXED);
    atomic_store_explicit(&device->need_us, atomic_load_explicit(&limits->need_us, RELAXED),
                          RELAXED);
    atomic_store_explicit(&device->each_us, atomic_load_explicit(&limits->each_us, RELAXED),
                          RELAXED);
    atomic_store_explicit(&device->burst_us, atomic_load_explicit(&limits->burst_us, RELAXED),
                          RELAXED);
}

static bool read_device(struct launch_device *device, const struct limits_device *limits)
{
    uint32_t window_us = atomic_load_explicit(&limits->window_us, RELAXED);
    uint32_t gate_us = atomic_load_explicit(&limits->gate_us_max, RELAXED);
    uint32_t share = atomic_load_explicit(&limits->share_percent, RELAXED);
    uint32_t rate = atomic_load_explicit(&limits->rate_permille, RELAXED);
    atomic_store_explicit(&device->window_ns, (uint64_t)window_us * CLOCK_US_NS, RELAXED);
    atomic_store_explicit(&device->gate_ns, (uint64_t)gate_us * CLOCK_US_NS, RELAXED);
    read_gate(device, limits);
    atomic_store_explicit(&device->rate_permille, rate < 1000 ? rate : 0, RELAXED);
    atomic_store_explicit(&device->share_permille, share > 0 && share < 100 ? share * 10 : 1000,
                          RELAXED);
    bool has_rate = rate > 0 && rate < 1000;
    bool has_small_window = window_us > 0 && window_us < LAUNCH_AHEAD_NS / CLOCK_US_NS;
    bool is_exact = has_rate || gate_us > 0 || has_small_window;
    atomic_store_explicit(&device->is_exact, is_exact, RELAXED);
    return window_us > 0 || gate_us > 0 || has_rate;
}

/* Reads the limits, one thread at a time: a thread that was interrupted must not overwrite newer
 * limits with older ones. */
static void read_limits(struct process *p)
{
    const struct limits_page *limits = p->client.limits;
    struct launch *launch = p->launch;
    if (!lock_enter(&launch->reading))
        return; /* a signal handler interrupted this function */
    uint64_t sequence = atomic_load_explicit(&limits->sequence, memory_order_acquire);
    if (sequence + 1 == atomic_load_explicit(&launch->sequence, RELAXED)) {
        lock_release(&launch->reading);
        return;
    }
    bool is_service = atomic_load_explicit(&limits->kind, RELAXED) == LIMITS_SERVICE;
    bool is_armed = is_service || atomic_load_explicit(&limits->lease_deadline_ms, RELAXED) != 0;
    for (uint32_t i = 0; i < PAGE_DEVICES_MAX; i++)
        is_armed |= read_device(&launch->devices[i], &limits->devices[i]);
    atomic_store_explicit(&launch->is_service, is_service, RELAXED);
    atomic_store_explicit(&launch->tick_ns, 0, RELAXED);
    atomic_store_explicit(&launch->looked_ticks, 0, RELAXED);
    atomic_store_explicit(&launch->is_armed, is_armed, RELAXED);
    atomic_store_explicit(&launch->sequence, sequence + 1, memory_order_release);
    lock_release(&launch->reading);
}

bool launch_is_armed_slowly(struct process *p)
{
    uint64_t sequence = atomic_load_explicit(&p->client.limits->sequence, RELAXED);
    if (sequence + 1 != atomic_load_explicit(&p->launch->sequence, RELAXED))
        read_limits(p);
    return atomic_load_explicit(&p->launch->is_armed, RELAXED);
}

const struct due_rule *launch_rule(const struct launch_device *device, struct due_rule *rule)
{
    if (atomic_load_explicit(&device->gate_rule, RELAXED) != LIMITS_GATE_DUE)
        return NULL;
    rule->need_ns = (uint64_t)atomic_load_explicit(&device->need_us, RELAXED) * CLOCK_US_NS;
    rule->each_ns = (uint64_t)atomic_load_explicit(&device->each_us, RELAXED) * CLOCK_US_NS;
    rule->burst_ns = (uint64_t)atomic_load_explicit(&device->burst_us, RELAXED) * CLOCK_US_NS;
    return rule;
}

/* ---- lease ---- */

static uint64_t boot_ms(void)
{
    return clock_read(CLOCK_BOOTTIME) / CLOCK_MS_NS;
}

/* After the end of the lease another copy of the task may run. This copy launches nothing until an
 * agent, possibly a new one, extends the lease. */
static void hold_for_lease(struct process *p, uint64_t deadline_ms)
{
    enum { LOOK_AGAIN_NS = 10 * CLOCK_MS_NS };
    struct status_page *status = p->client.status;
    uint32_t running = STATUS_RUNNING, fenced = STATUS_FENCED;
    uint64_t start_ns = clock_now_ns();
    atomic_compare_exchange_strong(&status->state, &running, STATUS_FENCED);
    for (uint64_t now_ms = boot_ms(); deadline_ms != 0 && now_ms >= deadline_ms;
         now_ms = boot_ms()) {
        uint32_t fence_ms = atomic_load(&p->client.limits->fence_ms);
        if (now_ms - deadline_ms >= (fence_ms > 0 ? fence_ms : LIMITS_FENCE_MS) &&
            !atomic_exchange(&p->launch->has_raised, 1))
            (void)sys_call(SYS_kill, sys_getpid(), SIGTERM, 0, 0, 0, 0);
        clock_sleep_ns(LOOK_AGAIN_NS);
        (void)client_check(&p->client);
        deadline_ms = atomic_load(&p->client.limits->lease_deadline_ms);
    }
    atomic_store(&p->launch->has_raised, 0);
    atomic_compare_exchange_strong(&status->state, &fenced, STATUS_RUNNING);
    process_count(p, STATUS_held_lease_ns, clock_now_ns() - start_ns);
}

/* Runs ten times per second, and at the end of the lease, which only a task has. A process that
 * rarely launches finds a new agent here, before the lease of the old one is checked. */
static void tick(struct process *p, uint64_t now_ns)
{
    (void)client_check(&p->client);
    atomic_store(&p->launch->sole, 0);
    uint64_t deadline_ms = atomic_load(&p->client.limits->lease_deadline_ms);
    uint64_t next_ns = LAUNCH_TICK_NS;
    if (deadline_ms != 0 && !atomic_load_explicit(&p->launch->is_service, RELAXED)) {
        uint64_t now_ms = boot_ms();
        if (now_ms >= deadline_ms)
            hold_for_lease(p, deadline_ms);
        else if ((deadline_ms - now_ms) * CLOCK_MS_NS < next_ns)
            next_ns = (deadline_ms - now_ms) * CLOCK_MS_NS;
    }
    atomic_store_explicit(&p->launch->tick_ns, now_ns + next_ns, RELAXED);
}

/* looked_ticks is set last: while one thread waits here for the lease, other threads must read the
 * clock as well. */
RARELY static void read_clock(struct process *p, uint64_t ticks)
{
    uint64_t now_ns = clock_coarse_ns();
    if (now_ns >= atomic_load_explicit(&p->launch->tick_ns, RELAXED))
        tick(p, now_ns);
    atomic_store_explicit(&p->launch->looked_ticks, ticks, RELAXED);
}

/* Reading the time would be a good part of a launch's cost here. The processor's counter is nearly
 * free. A counter that is behind, on another core or after a move to another machine, only causes
 * an extra reading of the clock. */
static INLINE void look_at_clock(struct process *p)
{
    uint64_t ticks = clock_ticks();
    uint64_t looked_ticks = atomic_load_explicit(&p->launch->looked_ticks, RELAXED);
    if (__builtin_expect(ticks - looked_ticks >= LAUNCH_CLOCK_TICKS, 0))
        read_clock(p, ticks);
}

/* ---- delays ---- */

/* A launch that is delayed. */
struct hold {
    struct process *p;
    struct launch_device *device;
    int index;        /* index of the device */
    uint64_t held_ns; /* delay so far, for all reasons */
    /* The launch is a graph that may contain a collective, or an unseen collective may be
     * outstanding. */
    bool may_be_collective;
};

static struct hold hold_of(struct process *p, int index, bool may_be_collective)
{
    return (struct hold){.p = p,
                         .device = &p->launch->devices[index],
                         .index = index,
                         .may_be_collective = may_be_collective};
}

bool launch_has_collective(struct process *p, int device)
{
    const struct status_page *status = p->client.status;
    uint64_t slots = atomic_load_explicit(&p->launch->devices[device].slots, RELAXED);
    for (; slots; slots &= slots - 1) {
        int slot = __builtin_ctzll(slots);
        const struct stream *stream = &p->launch->streams.slots[slot];
        uint64_t collective = atomic_load_explicit(&stream->collective, RELAXED);
        uint64_t completed = atomic_load_explicit(&status->completed[slot], memory_order_acquire);
        /* Not streams_done(): work that was given up may still wait for other processes. */
        if (collective > completed)
            return true;
    }
    return false;
}

static bool is_short(void *argument)
{
    const struct hold *hold = argument;
    return hold->may_be_collective || launch_has_collective(hold->p, hold->index);
}

/* Returns how much longer a collective's launch may be delayed. */
static uint64_t short_left_ns(const struct hold *hold)
{
    return hold->held_ns < LAUNCH_COLLECTIVE_HOLD_NS ? LAUNCH_COLLECTIVE_HOLD_NS - hold->held_ns
                                                     : 0;
}

RARELY static void hold_for_rate(struct hold *hold, uint64_t cost_ns, uint32_t rate_permille)
{
    enum { SLICE_NS = 1 * CLOCK_MS_NS };
    struct process *p = hold->p;
    struct rate_report report;
    uint64_t own_ns = cost_ns * atomic_load_explicit(&hold->device->share_permille, RELAXED) / 1000;
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns;
    uint64_t wait_ns = rate_charge(&hold->device->rate, start_ns, own_ns, rate_permille, &report);
    if (report.periods > 0) {
        process_count(p, STATUS_rate_periods, report.periods);
        process_count(p, STATUS_rate_error_permille, report.error_permille);
    }
    while (now_ns - start_ns < wait_ns) {
        if (now_ns - start_ns >= short_left_ns(hold) && is_short(hold))
            break;
        uint64_t left_ns = wait_ns - (now_ns - start_ns);
        clock_sleep_ns(left_ns < SLICE_NS ? left_ns : SLICE_NS);
        now_ns = clock_now_ns();
    }
    if (wait_ns > 0)
        process_count(p, STATUS_held_rate_ns, now_ns - start_ns);
    hold->held_ns += now_ns - start_ns;
}

/* Puts marks after all outstanding work of the device, so that its end becomes visible. */
static void mark_all(const struct hold *hold)
{
    struct process *p = hold->p;
    uint64_t slots = atomic_load_explicit(&hold->device->slots, RELAXED);
    for (; slots; slots &= slots - 1) {
        struct stream *stream = &p->launch->streams.slots[__builtin_ctzll(slots)];
        if (atomic_load(&stream->launched) != atomic_load(&stream->marked))
            marks_write_if_possible(p, stream);
    }
}

/* Returns whether a wait for the window has lasted so long that marks are probably lost, or a
 * collective is involved. Work that is long by its cost is waited for: launches that pass meanwhile
 * would pile up beyond what is harmless if the process is killed. */
static bool has_waited_enough(struct hold *hold, uint64_t window_ns, uint64_t outstanding_ns,
                              uint64_t held_ns, uint64_t still_ns)
{
    uint64_t most_ns =
        WINDOW_HOLD_TIMES * (outstanding_ns > window_ns ? outstanding_ns : window_ns);
    if (most_ns > LAUNCH_WINDOW_HOLD_NS_MAX)
        most_ns = LAUNCH_WINDOW_HOLD_NS_MAX;
    return still_ns >= most_ns || (held_ns >= short_left_ns(hold) && is_short(hold));
}

/* Waits for room in the window and charges the launch. */
RARELY static void hold_for_window(struct hold *hold, uint64_t cost_ns, uint64_t window_ns)
{
    struct process *p = hold->p;
    struct streams *streams = &p->launch->streams;
    struct window *window = &hold->device->window;
    const struct status_page *status = p->client.status;
    uint64_t slots = atomic_load_explicit(&hold->device->slots, RELAXED);
    struct window_view view = window_look(window, status, streams, slots);
    uint64_t outstanding_ns = view.outstanding_ns;
    if (window_fits(window_ns, outstanding_ns, outstanding_ns, cost_ns) &&
        window_take_seen(window, view, cost_ns))
        return;
    mark_all(hold);
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns, progress_ns = start_ns, shut_ns = 0;
    for (;;) {
        view = window_look(window, status, streams, slots);
        if (view.outstanding_ns != outstanding_ns) {
            progress_ns = now_ns;
            shut_ns = 0;
        }
        outstanding_ns = view.outstanding_ns;
        uint64_t still_ns = now_ns - progress_ns;
        uint64_t left_ns = outstanding_ns > still_ns ? outstanding_ns - still_ns : 0;
        if (window_fits(window_ns, outstanding_ns, left_ns, cost_ns) &&
            window_take_seen(window, view, cost_ns))
            break;
        uint64_t held_ns = now_ns - start_ns;
        if (has_waited_enough(hold, window_ns, outstanding_ns, held_ns, still_ns - shut_ns)) {
            process_count(p, STATUS_passes_window, 1);
            window_give_up(window, status, streams, slots);
            window_charge(window, cost_ns);
            break;
        }
        bool is_shut = atomic_load(&status->shut[hold->index]) != 0;
        clock_relax(held_ns);
        uint64_t then_ns = now_ns;
        now_ns = clock_now_ns();
        /* While the streams are shut for a service, missing progress does not mean that marks are
         * lost. */
        if (is_shut)
            shut_ns += now_ns - then_ns;
    }
    process_count(p, STATUS_holds_window, 1);
    process_count(p, STATUS_held_window_ns, now_ns - start_ns);
    hold->held_ns += now_ns - start_ns;
}

static void listen(void *argument)
{
    const struct hold *hold = argument;
    client_poll(&hold->p->client, 1);
}

RARELY static void hold_for_gate(struct hold *hold, uint64_t gate_ns)
{
    struct process *p = hold->p;
    struct due_rule rule;
    const struct gate_wait wait = {
        .neighbours = &p->client.neighbours,
        .device = hold->index,
        .rule = launch_rule(hold->device, &rule),
        .most_ns = gate_ns,
        .linger_ns = atomic_load_explicit(&hold->device->linger_ns, RELAXED),
        .short_ns = short_left_ns(hold),
        .is_short = is_short,
        .listen = listen,
        .argument = hold,
    };
    bool is_passed;
    uint64_t held_ns = gate_hold(&p->launch->gate, &wait, &is_passed);
    if (is_passed)
        process_count(p, STATUS_passes_gate, 1);
    if (held_ns == 0)
        return;
    process_count(p, STATUS_holds_gate, 1);
    process_count(p, STATUS_held_gate_ns, held_ns);
}

/* Returns whether the device's streams, and not this thread, wait for services at the gate. */
static bool is_kept(struct process *p, const struct launch_device *device)
{
    uint64_t window_ns = atomic_load_explicit(&device->window_ns, RELAXED);
    return window_ns > 0 && window_ns < LAUNCH_AHEAD_NS &&
           atomic_load_explicit(&device->gate_place, RELAXED) == LIMITS_GATE_DEVICE &&
           atomic_load_explicit(&p->client.neighbours.present, RELAXED) != 0 &&
           keeper_is_there(p, &p->launch->keeper);
}

/* Returns the charge of a new kernel: the whole window if the kernel was never measured, and a good
 * part of the window if it was measured a few times. */
RARELY static uint64_t charge_of_new(const struct launch_ticket *ticket,
                                     const struct cost_entry *entry)
{
    uint64_t least_ns = ticket->window_ns / (cost_is_known(entry) ? LAUNCH_NEW_PARTS : 1);
    return ticket->cost_ns > least_ns ? ticket->cost_ns : least_ns;
}

/* Charges the launch if there surely is room for it. */
static inline bool take_room(struct launch_device *device, const struct launch_ticket *ticket)
{
    if (__builtin_expect(ticket->window_ns > 0, 1))
        return window_take(&device->window, ticket->window_ns, ticket->charge_ns);
    window_charge(&device->window, ticket->charge_ns);
    return true;
}

/* Waits until rate and window have room for the launch, and charges it. Returns the delay. The
 * lease may have ended meanwhile. */
RARELY static uint64_t hold_for_room(struct process *p, const struct stream *stream,
                                     const struct launch_ticket *ticket)
{
    struct hold hold = hold_of(p, stream->device, ticket->is_graph && ticket->is_collective);
    uint32_t rate_permille = atomic_load_explicit(&hold.device->rate_permille, RELAXED);
    if (rate_permille > 0)
        hold_for_rate(&hold, ticket->cost_ns, rate_permille);
    if (!take_room(hold.device, ticket))
        hold_for_window(&hold, ticket->charge_ns, ticket->window_ns);
    look_at_clock(p);
    return hold.held_ns;
}

/* Makes the thread wait at the gate. The launch is not charged meanwhile: other threads would wait
 * for work that does not run. */
RARELY static void hold_at_gate(struct process *p, const struct stream *stream,
                                const struct launch_ticket *ticket, uint64_t gate_ns,
                                uint64_t held_ns)
{
    struct hold hold = hold_of(p, stream->device, ticket->is_graph && ticket->is_collective);
    hold.held_ns = held_ns;
    window_put_back(&hold.device->window, ticket->charge_ns);
    hold_for_gate(&hold, gate_ns);
    if (!take_room(hold.device, ticket))
        hold_for_window(&hold, ticket->charge_ns, ticket->window_ns);
    look_at_clock(p);
}

/* Delays a task's launch until it may go to the driver, and charges it to the window. */
static INLINE void hold_launch(struct process *p, struct stream *stream,
                               const struct cost_entry *entry, bool is_usual,
                               struct launch_ticket *ticket)
{
    struct launch_device *device = &p->launch->devices[stream->device];
    uint64_t window_ns = atomic_load_explicit(&device->window_ns, RELAXED);
    uint64_t gate_ns = atomic_load_explicit(&device->gate_ns, RELAXED);
    bool is_guarded = gate_ns > 0 && is_kept(p, device);
    uint64_t held_ns = 0;
    ticket->window_ns = is_guarded ? LAUNCH_AHEAD_NS : window_ns;
    if (!is_usual && ticket->is_collective && !ticket->is_graph) {
        window_charge(&device->window, ticket->charge_ns);
        return;
    }
    if (__builtin_expect(cost_is_new(entry), 0))
        ticket->charge_ns = charge_of_new(ticket, entry);
    bool has_rate = !is_usual && atomic_load_explicit(&device->rate_permille, RELAXED) > 0;
    if (__builtin_expect(has_rate || !take_room(device, ticket), 0))
        held_ns = hold_for_room(p, stream, ticket);
    if (gate_ns == 0 || (is_guarded && keeper_guard(p, stream, ticket->charge_ns, window_ns)) ||
        atomic_load_explicit(&p->client.neighbours.present, RELAXED) == 0)
        return;
    hold_at_gate(p, stream, ticket, gate_ns, held_ns);
}

/* Delays a launch into a stream without a slot. Without marks there is no window, and outstanding
 * collectives are invisible: a task with any collectives is not delayed for long. */
static void hold_unmarked(struct process *p, CUstream handle, uint64_t cost_ns)
{
    CUdevice number;
    int index = devices_of_stream(p, handle, &number);
    if (index < 0)
        return;
    bool has_collectives = atomic_load_explicit(&p->launch->collectives.count, RELAXED) > 0;
    struct hold hold = hold_of(p, index, has_collectives);
    uint32_t rate_permille = atomic_load_explicit(&hold.device->rate_permille, RELAXED);
    uint64_t gate_ns = atomic_load_explicit(&hold.device->gate_ns, RELAXED);
    if (rate_permille > 0)
        hold_for_rate(&hold, cost_ns, rate_permille);
    if (gate_ns > 0 && atomic_load_explicit(&p->client.neighbours.present, RELAXED))
        hold_for_gate(&hold, gate_ns);
    look_at_clock(p);
}

/* ---- around a launch ---- */

/* A default stream belongs to the current context, which only the driver knows; that query costs as
 * much as the rest of a usual launch. With a single context the query is not needed. The answer
 * holds until the next tick, in case a context was made without the shim's knowledge. */
static void note_sole(struct process *p, uint64_t key, uint32_t slot)
{
    uint64_t known = 0;
    if (atomic_load(&p->contexts.made) > 1)
        return;
    if (!atomic_compare_exchange_strong(&p->launch->streams.sole_key, &known, key) && known != key)
        atomic_fetch_add(&p->contexts.made, 2);
    if (atomic_load(&p->contexts.made) > 1)
        return;
    atomic_store(&p->launch->sole, slot + 1);
    if (atomic_load(&p->contexts.made) > 1) {
        atomic_store(&p->launch->sole, 0);
    }
}

RARELY static struct stream *find_stream_slowly(struct process *p, CUstream *handle,
                                                bool is_per_thread)
{
    struct streams *streams = &p->launch->streams;
    uint64_t key = streams_key(p, handle, is_per_thread);
    uint32_t slot = atomic_load_explicit(&streams->cache[streams_place(key)], RELAXED);
    struct stream *stream = &streams->slots[slot];
    if (key == 0 || atomic_load_explicit(&stream->key, memory_order_acquire) != key)
        stream = streams_find_slowly(p, key, *handle);
    if (stream && streams_is_default(key))
        note_sole(p, key, stream->slot);
    return stream;
}

static INLINE struct stream *find_stream(struct process *p, CUstream *handle, bool is_per_thread)
{
    struct stream *stream = is_per_thread ? NULL : launch_known_stream(p->launch, *handle);
    return __builtin_expect(stream != NULL, 1) ? stream
                                               : find_stream_slowly(p, handle, is_per_thread);
}

/* Of launches into streams without a slot, only a service's matter to other processes: the service
 * counts as busy. */
static void begin_unmarked(struct process *p, CUstream handle, const struct cost_entry *entry,
                           const struct launch_ticket *ticket)
{
    struct status_page *status = p->client.status;
    bool is_charged = !ticket->is_collective || ticket->is_graph;
    bool is_service = atomic_load_explicit(&p->launch->is_service, RELAXED);
    if (!is_service && is_charged)
        hold_unmarked(p, handle, atomic_load_explicit(&entry->cost_ns, RELAXED));
    busy_note(p);
    process_count(p, STATUS_streams_unmarked, 1);
    if (!is_service)
        return;
    CUcontext context = NULL;
    (void)p->calls.real.cuCtxGetCurrent(&context);
    _Atomic uint64_t *unmarked = busy_unmarked(&p->busy, context);
    atomic_fetch_or(&status->open_streams, UINT64_C(1) << STREAMS_SHARED_SLOT);
    atomic_fetch_add(&status->started[STREAMS_SHARED_SLOT], 1);
    if (unmarked)
        atomic_fetch_add(unmarked, 1);
    if (atomic_load_explicit(&status->burst_begin_ns, RELAXED) == 0)
        bursts_begin(p, 0, ticket->is_graph);
}

/* Returns whether this is a kernel of a task, alone or beside others, into a stream with a slot. */
static bool is_usual(const struct launch *launch, const struct stream *stream,
                     const struct cost_entry *entry, const struct launch_ticket *ticket)
{
    return stream && stream->device >= 0 && !ticket->is_graph &&
           !atomic_load_explicit(&entry->is_collective, RELAXED) &&
           !atomic_load_explicit(&launch->is_service, RELAXED) &&
           atomic_load_explicit(&launch->captures, RELAXED) == 0 &&
           atomic_load_explicit(&launch->devices[stream->device].rate_permille, RELAXED) == 0;
}

/* Delays, charges and measures the launch. */
static INLINE void begin(struct process *p, struct stream *stream, struct cost_entry *entry,
                         uint64_t key, bool is_usual, struct launch_ticket *ticket)
{
    bool is_charged = is_usual || !ticket->is_collective || ticket->is_graph;
    bool is_task =
        is_usual || (!atomic_load_explicit(&p->launch->is_service, RELAXED) && stream->device >= 0);
    ticket->stream = stream;
    ticket->cost_ns = is_charged ? atomic_load_explicit(&entry->cost_ns, RELAXED) : 1;
    ticket->charge_ns = ticket->cost_ns;
    if (is_task)
        hold_launch(p, stream, entry, is_usual, ticket);
    atomic_fetch_add(&p->client.status->started[stream->slot], ticket->charge_ns);
    if (!is_task && atomic_load_explicit(&p->client.status->burst_begin_ns, RELAXED) == 0 &&
        atomic_load_explicit(&p->launch->is_service, RELAXED))
        bursts_begin(p, stream->device, ticket->is_graph);
    if (is_task)
        window_note_begun(&p->launch->devices[stream->device].window, ticket->charge_ns);
    bool is_exact =
        !is_task || atomic_load_explicit(&p->launch->devices[stream->device].is_exact, RELAXED);
    if (is_charged && __builtin_expect(cost_is_due(&p->launch->pace, entry, is_exact), 0))
        ticket->timing = cost_begin(p, stream, key);
}

RARELY static void begin_unusual(struct process *p, struct stream *stream, CUstream handle,
                                 struct cost_entry *entry, uint64_t key,
                                 struct launch_ticket *ticket)
{
    ticket->is_collective = atomic_load_explicit(&entry->is_collective, RELAXED);
    if (atomic_load_explicit(&p->launch->captures, RELAXED) > 0 &&
        streams_is_capturing(p, handle)) {
        if (ticket->is_collective)
            atomic_store(&p->launch->collectives.is_captured, 1);
        return;
    }
    look_at_clock(p);
    if (!stream)
        begin_unmarked(p, handle, entry, ticket);
    else
        begin(p, stream, entry, key, false, ticket);
}

void launch_begin(struct process *p, const struct cost_launch *launch, CUstream handle,
                  bool is_per_thread, struct launch_ticket *ret_ticket)
{
    struct stream *stream = find_stream(p, &handle, is_per_thread);
    uint64_t key = cost_key(launch);
    struct cost_entry *entry = cost_find(p, &p->launch->costs, key, launch);
    *ret_ticket = (struct launch_ticket){.is_graph = launch->is_graph};
    if (__builtin_expect(!is_usual(p->launch, stream, entry, ret_ticket), 0)) {
        begin_unusual(p, stream, handle, entry, key, ret_ticket);
        return;
    }
    look_at_clock(p);
    begin(p, stream, entry, key, true, ret_ticket);
}

/* Returns whether a mark is due after the launches so far. */
static bool is_mark_due(struct process *p, struct stream *stream,
                        const struct launch_ticket *ticket, uint64_t launched)
{
    if (atomic_load_explicit(&p->launch->is_service, RELAXED)) {
        uint32_t unmarked = atomic_fetch_add_explicit(&stream->unmarked, 1, RELAXED) + 1;
        if (ticket->is_graph || unmarked >= MARKS_KERNELS)
            return true;
        atomic_store_explicit(&p->launch->marks.due, 1, RELAXED);
        return false;
    }
    uint64_t window_ns = ticket->window_ns;
    uint64_t unmarked_ns = launched - atomic_load_explicit(&stream->marked, RELAXED);
    return window_ns > 0 && (ticket->is_collective || unmarked_ns * WINDOW_MARKS >= window_ns);
}

void launch_end(struct process *p, struct launch_ticket *ticket)
{
    struct stream *stream = ticket->stream;
    if (__builtin_expect(!stream, 0)) {
        process_count(p, STATUS_launches_uncharged, 1);
        return;
    }
    if (__builtin_expect(ticket->timing != NULL, 0))
        cost_end(p, stream, ticket->timing);
    uint64_t launched =
        atomic_fetch_add_explicit(&stream->launched, ticket->charge_ns, memory_order_release) +
        ticket->charge_ns;
    if (__builtin_expect(ticket->is_collective, 0)) {
        process_count(p, STATUS_launches_collective, 1);
        atomic_store_explicit(&stream->collective, launched, RELAXED);
    }
    process_count(p, ticket->is_graph ? STATUS_gpu_time_graph_ns : STATUS_gpu_time_kernel_ns,
                  ticket->cost_ns);
    if (__builtin_expect(is_mark_due(p, stream, ticket, launched), 0))
        (void)marks_write(p, stream);
}

/* ---- copies and waits ---- */

static void begin_service_copy(struct process *p, struct stream *stream)
{
    atomic_fetch_add(&p->client.status->started[stream->slot], 1);
    atomic_fetch_add(&stream->launched, 1);
    atomic_store_explicit(&p->launch->marks.due, 1, RELAXED);
}

void launch_copy(struct process *p, uint64_t bytes, CUstream handle, bool is_per_thread,
                 bool is_to_device)
{
    bool is_service = atomic_load_explicit(&p->launch->is_service, RELAXED);
    if (is_service ? !is_to_device : bytes < LAUNCH_COPY_BYTES_MIN) {
        launch_wait(p);
        return;
    }
    struct stream *stream = find_stream(p, &handle, is_per_thread);
    if (!stream || stream->device < 0 ||
        (atomic_load(&p->launch->captures) > 0 && streams_is_capturing(p, handle)))
        return;
    struct launch_device *device = &p->launch->devices[stream->device];
    struct hold hold = hold_of(p, stream->device, false);
    uint64_t gate_ns = atomic_load_explicit(&device->gate_ns, RELAXED);
    if (is_service)
        begin_service_copy(p, stream);
    else if (gate_ns > 0 &&
             !(is_kept(p, device) && keeper_guard(p, stream, LAUNCH_AHEAD_NS, LAUNCH_AHEAD_NS)))
        hold_for_gate(&hold, gate_ns);
}

void launch_wait(struct process *p)
{
    if (__builtin_expect(atomic_load_explicit(&p->launch->marks.due, RELAXED), 0))
        marks_flush(p);
}

void launch_waited(struct process *p)
{
    if (__builtin_expect(atomic_load_explicit(&p->client.status->burst_begin_ns, RELAXED) != 0, 0))
        bursts_end(p);
}

/* ---- the whole process ---- */

uint64_t launch_outstanding_ns(struct process *p)
{
    uint64_t sum = 0;
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        sum += window_outstanding(p->client.status, &p->launch->streams,
                                  atomic_load(&p->launch->devices[i].slots));
    return sum;
}

void launch_reset(struct launch *launch)
{
    lock_init(&launch->reading);
    atomic_store(&launch->sequence, 0);
    atomic_store(&launch->is_armed, 0);
    atomic_store(&launch->has_raised, 0);
    atomic_store(&launch->captures, 0);
    atomic_store(&launch->sole, 0);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        launch->devices[i] = (struct launch_device){0};
    streams_reset(&launch->streams);
    marks_reset(&launch->marks);
    launch->gate = (struct gate){0};
    keeper_reset(&launch->keeper);
    launch->bursts = (struct bursts){0};
    cost_reset(&launch->costs);
    launch->collectives = (struct collectives){0};
}
