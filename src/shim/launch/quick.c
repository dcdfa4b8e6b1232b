#include "shim/launch/quick.h"

#include "shim/life/process.h"

#define RELAXED memory_order_relaxed

static uint32_t launches_of(uint64_t word)
{
    return (uint32_t)word;
}

static uint32_t ns_of(uint64_t word)
{
    return (uint32_t)(word >> QUICK_NS_SHIFT);
}

/* Both parts of what was spent are what was less than before: no part borrows of the other. */
static void count_spent(struct process *p, uint64_t spent)
{
    uint32_t launches = launches_of(spent);
    struct cost_pace *pace = &p->launch->pace;
    uint32_t left = atomic_load_explicit(&pace->launches_left, RELAXED);
    atomic_store_explicit(&pace->launches_left, left > launches ? left - launches : 0, RELAXED);
    process_count(p, STATUS_gpu_time_kernel_ns, ns_of(spent));
    uint64_t before = process_count(p, STATUS_launches_kernel, launches);
    if (before / CLIENT_CHECK_EVERY != (before + launches) / CLIENT_CHECK_EVERY)
        (void)client_check(&p->client);
}

/* Under the lock, at which so much was left. */
static uint64_t take_spent(struct quick *quick, uint64_t left)
{
    uint64_t spent = atomic_exchange(&quick->counted, left) - left;
    quick->untold_ns += ns_of(spent);
    return spent;
}

/* Nobody waits for the lock: who has it may be a thread that a handler of a signal has interrupted
 * for long. What is not counted now is later. */
void quick_count_slowly(struct process *p, struct quick *quick)
{
    if (!lock_try(&quick->lock))
        return;
    uint64_t paid = atomic_load(&quick->paid);
    uint64_t spent = take_spent(quick, paid);
    lock_release(&quick->lock);
    count_spent(p, spent);
}

bool quick_is_for(struct quick *quick, const struct stream *stream)
{
    const struct stream *owner = atomic_load_explicit(&quick->stream, RELAXED);
    if (!owner || owner == stream || atomic_load_explicit(&quick->handle, RELAXED) == QUICK_CLOSED)
        return true;
    uint64_t paid = atomic_load_explicit(&quick->paid, RELAXED);
    return atomic_exchange_explicit(&quick->seen, paid, RELAXED) == paid;
}

/* What was paid under other limits is void: it could pass where nothing may now. Limits are there
 * before the stream is. */
static bool is_valid(const struct quick *quick, const struct stream *stream)
{
    if (atomic_load_explicit(&quick->stream, memory_order_acquire) != stream)
        return false;
    const struct limits_page *limits = atomic_load_explicit(&quick->limits, RELAXED);
    return atomic_load_explicit(&limits->sequence, RELAXED) ==
           atomic_load_explicit(&quick->sequence, RELAXED);
}

uint32_t quick_left_ns(const struct quick *quick, const struct stream *stream)
{
    return is_valid(quick, stream) ? ns_of(atomic_load_explicit(&quick->paid, RELAXED)) : 0;
}

static bool has_reason_to_close(struct process *p, const struct stream *stream, CUstream handle)
{
    uint32_t exit_state = atomic_load(&p->exit.state);
    return atomic_load(&p->launch->captures) > 0 ||
           (exit_state != EXIT_OPEN && exit_state != EXIT_OFF) ||
           launch_known_stream(p->launch, handle) != stream ||
           !atomic_load(&p->launch->devices[stream->device].is_prepaid);
}

/* Under the lock. Nobody spends what is not there while it changes whose it is, and whether there
 * is a reason to close. */
static uint64_t fill(struct process *p, struct quick *quick, struct stream *stream, CUstream handle,
                     uint32_t more_ns)
{
    bool was_valid = is_valid(quick, stream);
    uint64_t left = atomic_exchange(&quick->paid, 0);
    uint64_t spent = take_spent(quick, left);
    if (more_ns > 0)
        quick->untold_ns = 0; /* what was launched with it is behind them */
    uint64_t ns = (was_valid ? ns_of(left) : 0) + (uint64_t)more_ns;
    uint32_t launches = atomic_load_explicit(&p->launch->pace.launches_left, RELAXED);
    launches = launches > launches_of(spent) ? launches - launches_of(spent) : 0;
    atomic_store(&quick->limits, p->client.limits);
    atomic_store(&quick->sequence, atomic_load_explicit(&p->launch->sequence, RELAXED) - 1);
    atomic_store(&quick->messages, atomic_load_explicit(&p->client.messages_seen, RELAXED));
    atomic_store(&quick->looked_ticks, atomic_load_explicit(&p->launch->looked_ticks, RELAXED));
    atomic_store(&quick->cuLaunchKernel, p->calls.real.cuLaunchKernel);
    atomic_store(&quick->cuLaunchKernelEx, p->calls.real.cuLaunchKernelEx);
    atomic_store(&quick->stream, stream);
    atomic_store(&quick->handle, handle);
    uint64_t paid = (ns < QUICK_PAID_NS ? ns : QUICK_PAID_NS) << QUICK_NS_SHIFT | launches;
    /* Then nothing is paid either: who saw the same before, and then the handle, would take it for
     * that. */
    if (has_reason_to_close(p, stream, handle)) {
        quick_close(quick);
        paid = 0;
    }
    atomic_store(&quick->counted, paid);
    atomic_store(&quick->paid, paid);
    return spent;
}

void quick_open(struct process *p, struct stream *stream, CUstream handle, uint32_t more_ns)
{
    struct quick *quick = &p->quick;
    struct stream *owner = atomic_load(&quick->stream);
    if (owner && owner != stream)
        quick_settle(p, owner);
    if (!lock_try(&quick->lock))
        return;
    uint64_t spent = fill(p, quick, stream, handle, more_ns);
    lock_release(&quick->lock);
    if (spent)
        count_spent(p, spent);
}

/* In the window, too, without waiting for room there: it has been launched. */
static void charge(struct process *p, struct stream *stream, uint64_t ns)
{
    struct launch *launch = p->launch;
    if (stream->device >= 0)
        window_charge(&launch->devices[stream->device].window, ns);
    atomic_fetch_add(&p->client.status->started[stream->slot], ns);
    if (stream->device >= 0)
        window_note_begun(&launch->devices[stream->device].window, ns);
    atomic_fetch_add(&stream->launched, ns);
}

void quick_settle(struct process *p, struct stream *stream)
{
    struct quick *quick = &p->quick;
    if (!lock_try(&quick->lock))
        return;
    uint64_t spent = 0, untold_ns = 0;
    if (atomic_load(&quick->stream) == stream) {
        spent = take_spent(quick, atomic_exchange(&quick->paid, 0));
        atomic_store(&quick->counted, 0);
        atomic_store(&quick->stream, NULL);
        untold_ns = quick->untold_ns;
        quick->untold_ns = 0;
    }
    lock_release(&quick->lock);
    if (spent)
        count_spent(p, spent);
    if (untold_ns > 0 && streams_is_there(stream))
        charge(p, stream, untold_ns);
}

void quick_reset(struct quick *quick)
{
    lock_init(&quick->lock);
    quick_close(quick);
    atomic_store(&quick->paid, 0);
    atomic_store(&quick->counted, 0);
    quick->untold_ns = 0;
    atomic_store(&quick->stream, NULL);
    atomic_store(&quick->limits, NULL);
    quick_forget_all(quick);
}

#ifdef GPUMUX_QUICK_SWITCH
/* For the measurement of what quick launches save (bench/gpu/measure_quick.py). */
static _Atomic int is_refused;

bool quick_is_chosen(void)
{
    return !atomic_load_explicit(&is_refused, RELAXED);
}

__attribute__((visibility("default"))) void gpumux_quick_choose(int is_chosen)
{
    struct stream *owner = atomic_load(&the_process.quick.stream);
    atomic_store(&is_refused, !is_chosen);
    if (is_chosen || !owner)
        return;
    quick_close(&the_process.quick);
    quick_settle(&the_process, owner);
}

__attribute__((visibility("default"))) uint64_t gpumux_quick_paid(void)
{
    return atomic_load(&the_process.quick.paid);
}
#endif
