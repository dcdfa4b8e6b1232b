#include "shim/memory/swap.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include "shim/hook/capture.h"
#include "shim/life/process.h"
#include "shim/life/thread.h"
#include "shim/sys/clock.h"
#include "shim/sys/fault_point.h"

enum {
    HOLD_LOOK_NS = 20 * CLOCK_MS_NS,   /* longest sleep of a waiting thread between two looks */
    HOLD_CHECK_NS = 200 * CLOCK_MS_NS, /* interval in which a waiting thread checks the agent */
    DRAIN_LOOK_NS = 50 * CLOCK_US_NS,
    END_LOOK_NS = CLOCK_MS_NS,
};

static void wait_on(_Atomic uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};
    (void)sys_futex(word, operation, value, &time);
}

/* ---- the gate ---- */

static void open_gate(struct process *p)
{
    atomic_store(&p->swap.state, SWAP_OPEN);
    (void)sys_futex(&p->swap.state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

/* Opens the gate if outstanding work has lasted too long: the thread that moves may be waiting
 * inside the driver for work that waits for the calling thread. */
static void give_up_closing(struct process *p, uint64_t now_ns)
{
    struct swap *swap = &p->swap;
    uint32_t closing = SWAP_CLOSING;
    if (now_ns - atomic_load(&swap->closing_ns) >= (uint64_t)SWAP_DRAIN_MS * CLOCK_MS_NS &&
        atomic_compare_exchange_strong(&swap->state, &closing, SWAP_OPEN))
        (void)sys_futex(&swap->state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

bool swap_enter_slowly(struct process *p)
{
    struct swap *swap = &p->swap;
    uint64_t begun_ns = 0, checked_ns = 0;
    for (;;) {
        atomic_fetch_add(&swap->inside, 1);
        uint32_t state = atomic_load(&swap->state);
        if (__builtin_expect(state == SWAP_OPEN, 1))
            break;
        atomic_fetch_sub(&swap->inside, 1);
        if (state == SWAP_SHUT && atomic_load(&swap->is_over))
            return false;
        uint64_t now_ns = clock_now_ns();
        if (begun_ns == 0)
            begun_ns = checked_ns = now_ns;
        if (state == SWAP_CLOSING)
            give_up_closing(p, now_ns);
        if (now_ns - checked_ns >= HOLD_CHECK_NS) {
            checked_ns = now_ns;
            (void)client_check(&p->client);
        }
        wait_on(&swap->state, FUTEX_WAIT_PRIVATE, state, HOLD_LOOK_NS);
    }
    if (begun_ns)
        process_count(p, STATUS_held_swap_ns, clock_now_ns() - begun_ns);
    return true;
}

void swap_leave_slowly(struct process *p)
{
    atomic_fetch_sub(&p->swap.inside, 1);
}

/* Waits for the work of every context with chunks, and of every context that was launched into. */
static void synchronize(struct process *p)
{
    const struct real_calls *real = &p->calls.real;
    const struct chunks *c = &p->chunks;
    uint64_t done = 0;
    CUcontext popped;
    busy_synchronize(p, atomic_load(&p->swap.closing_ns) + (uint64_t)SWAP_DRAIN_MS * CLOCK_MS_NS);
    for (size_t i = 0; i < c->count; i++) {
        if (c->items[i].context == done ||
            real->cuCtxPushCurrent_v2((CUcontext)(uintptr_t)c->items[i].context) != CUDA_SUCCESS)
            continue;
        done = c->items[i].context;
        (void)real->cuCtxSynchronize();
        (void)real->cuCtxPopCurrent_v2(&popped);
    }
}

/* Returns whether no thread is inside a call, and all work is done. */
static bool close_gate(struct process *p)
{
    struct swap *swap = &p->swap;
    uint32_t closing = SWAP_CLOSING;
    if (atomic_load(&swap->state) == SWAP_SHUT)
        return true;
    if (atomic_load(&p->launch->captures) > 0)
        return false; /* the driver would not let the shim wait for the work */
    atomic_store(&swap->closing_ns, clock_now_ns());
    atomic_store(&swap->state, SWAP_CLOSING);
    while (atomic_load(&swap->inside) > 0 && atomic_load(&swap->state) == SWAP_CLOSING) {
        give_up_closing(p, clock_now_ns());
        clock_sleep_ns(DRAIN_LOOK_NS);
    }
    if (atomic_load(&swap->state) != SWAP_CLOSING)
        return false;
    synchronize(p);
    return atomic_compare_exchange_strong(&swap->state, &closing, SWAP_SHUT);
}

/* ---- moves ---- */

/* The chunks of one move. */
struct moved {
    struct swap_job *jobs;
    size_t *places; /* index in the table, by job */
    CUmemGenericAllocationHandle *handles;
    size_t count, room;
    uint64_t bytes;
};

static bool moved_init(struct moved *m, size_t room)
{
    size_t each = sizeof(*m->jobs) + sizeof(*m->places) + sizeof(*m->handles);
    *m = (struct moved){.room = room};
    char *memory = sys_mmap(room * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!memory)
        return false;
    m->jobs = (struct swap_job *)memory;
    m->handles = (CUmemGenericAllocationHandle *)(memory + room * sizeof(*m->jobs));
    m->places = (size_t *)(memory + room * (sizeof(*m->jobs) + sizeof(*m->handles)));
    return true;
}

static void moved_done(struct moved *m)
{
    (void)sys_munmap(m->jobs,
                     m->room * (sizeof(*m->jobs) + sizeof(*m->places) + sizeof(*m->handles)));
}

static void add(struct moved *m, const struct chunk *chunk, size_t place)
{
    m->jobs[m->count] = (struct swap_job){.address = chunk->address, .bytes = chunk->bytes};
    m->places[m->count++] = place;
    m->bytes += chunk->bytes;
}

/* Returns the smallest chunk that covers so many bytes and is not in the move; c->count: none. */
static size_t find_cover(const struct chunks *c, uint64_t bytes, const struct moved *m)
{
    size_t smallest = c->count, k = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (k < m->count && m->places[k] == i) { /* the places are in order */
            k++;
            continue;
        }
        if (!c->items[i].is_away && c->items[i].bytes >= bytes &&
            (smallest == c->count || c->items[i].bytes < c->items[smallest].bytes))
            smallest = i;
    }
    return smallest;
}

/* Removes the chunks without which the move still has so many bytes. */
static void drop_needless(struct moved *m, uint64_t wanted)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->bytes - m->jobs[i].bytes >= wanted) {
            m->bytes -= m->jobs[i].bytes;
            continue;
        }
        m->jobs[kept] = m->jobs[i];
        m->places[kept++] = m->places[i];
    }
    m->count = kept;
}

/* Chooses chunks of at least so many bytes: the chunks that fit, in order, and then the smallest
 * one that covers the rest. */
static void choose(const struct chunks *c, uint64_t wanted, struct moved *m)
{
    for (size_t i = 0; i < c->count && m->bytes < wanted; i++)
        if (!c->items[i].is_away && c->items[i].bytes <= wanted - m->bytes)
            add(m, &c->items[i], i);
    size_t cover = m->bytes < wanted ? find_cover(c, wanted - m->bytes, m) : c->count;
    if (cover == c->count)
        return;
    add(m, &c->items[cover], cover);
    drop_needless(m, wanted);
}

/* Takes host memory for all jobs. A forked child gets none of it. */
static bool take_host_memory(struct moved *m)
{
    for (size_t i = 0; i < m->count; i++) {
        m->jobs[i].host =
            sys_mmap(m->jobs[i].bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!m->jobs[i].host)
            return false;
        (void)sys_call(SYS_madvise, (long)m->jobs[i].host, (long)m->jobs[i].bytes, MADV_HUGEPAGE, 0,
                       0, 0);
        (void)sys_call(SYS_madvise, (long)m->jobs[i].host, (long)m->jobs[i].bytes, MADV_DONTFORK, 0,
                       0, 0);
    }
    return true;
}

static void free_host_memory(const struct moved *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->jobs[i].host)
            (void)sys_munmap(m->jobs[i].host, m->jobs[i].bytes);
}

/* Releases the device memory whose contents are in host memory now. */
static void release(struct process *p, struct moved *m, int device)
{
    struct chunks *c = &p->chunks;
    lock_take(&c->lock);
    for (size_t i = 0; i < m->count; i++) {
        struct chunk *chunk = &c->items[m->places[i]];
        FAULT_POINT();
        if (p->calls.real.cuMemUnmap(chunk->address, chunk->bytes) != CUDA_SUCCESS) {
            (void)sys_munmap(m->jobs[i].host, m->jobs[i].bytes);
            continue;
        }
        (void)p->calls.real.cuMemRelease(chunk->handle);
        chunk->host = m->jobs[i].host;
        chunk->is_away = true;
        atomic_fetch_add(&p->client.status->away_bytes[device], chunk->bytes);
        FAULT_POINT();
    }
    lock_release(&c->lock);
}

/* The context in which the copies are made, made current. Returns NULL without chunks. */
static CUcontext use_context(struct process *p)
{
    struct chunks *c = &p->chunks;
    CUcontext context = NULL;
    lock_take(&c->lock);
    if (c->count > 0)
        context = (CUcontext)(uintptr_t)c->items[0].context;
    lock_release(&c->lock);
    return context && p->calls.real.cuCtxSetCurrent(context) == CUDA_SUCCESS ? context : NULL;
}

/* Moves at least so many bytes to host memory. Call with `moving` held. */
static bool move_out(struct process *p, int device, uint64_t wanted)
{
    uint64_t begun_ns = clock_now_ns();
    struct moved m;
    CUcontext context = use_context(p);
    if (!context || !swap_make_copiers(p, context) || !close_gate(p))
        return false;
    bool is_done = moved_init(&m, p->chunks.count);
    if (is_done) {
        choose(&p->chunks, wanted, &m);
        is_done = m.count > 0 && take_host_memory(&m) && swap_copy(p, m.jobs, m.count, true);
        if (is_done)
            release(p, &m, device);
        else
            free_host_memory(&m);
        moved_done(&m);
    }
    if (atomic_load(&p->client.status->away_bytes[device]) == 0)
        open_gate(p);
    if (!is_done)
        return false;
    process_count(p, STATUS_swap_moves_out, 1);
    process_count(p, STATUS_swap_moved_out_bytes, m.bytes);
    process_count(p, STATUS_swap_out_ns, clock_now_ns() - begun_ns);
    return true;
}

/* Creates device memory for all chunks of the move, or for none. */
static bool create_all(struct process *p, struct moved *m)
{
    size_t count = 0;
    while (count < m->count &&
           chunk_create(p, &p->chunks.items[m->places[count]], &m->handles[count]) == CUDA_SUCCESS)
        count++;
    bool is_done = count == m->count;
    while (!is_done && count-- > 0)
        (void)p->calls.real.cuMemRelease(m->handles[count]);
    return is_done;
}

static bool map_all(struct process *p, struct moved *m)
{
    size_t count = 0;
    while (count < m->count &&
           chunk_map(p, &p->chunks.items[m->places[count]], m->handles[count]) == CUDA_SUCCESS)
        count++;
    if (count == m->count)
        return true;
    for (size_t i = 0; i < count; i++)
        (void)p->calls.real.cuMemUnmap(m->jobs[i].address, m->jobs[i].bytes);
    for (size_t i = 0; i < m->count; i++)
        (void)p->calls.real.cuMemRelease(m->handles[i]);
    return false;
}

/* Notes that the chunks are on the device again, whatever their copies did: after a failed copy the
 * context has an error that the program will see. */
static void settle(struct process *p, const struct moved *m, int device)
{
    struct chunks *c = &p->chunks;
    lock_take(&c->lock);
    for (size_t i = 0; i < m->count; i++) {
        struct chunk *chunk = &c->items[m->places[i]];
        chunk->handle = m->handles[i];
        chunk->is_away = false;
        chunk->host = NULL;
    }
    lock_release(&c->lock);
    atomic_store(&p->client.status->away_bytes[device], 0);
}

/* Moves all memory back. Call with `moving` held. Returns false if the device has no room. */
static bool move_back(struct process *p, int device)
{
    uint64_t begun_ns = clock_now_ns();
    struct chunks *c = &p->chunks;
    struct moved m;
    CUcontext context = use_context(p);
    if (!context || !swap_make_copiers(p, context) || !moved_init(&m, c->count))
        return false;
    for (size_t i = 0; i < c->count; i++) {
        if (!c->items[i].is_away)
            continue;
        add(&m, &c->items[i], i);
        m.jobs[m.count - 1].host = c->items[i].host;
    }
    bool is_done = create_all(p, &m) && map_all(p, &m);
    if (is_done) {
        FAULT_POINT();
        bool is_copied = swap_copy(p, m.jobs, m.count, false);
        if (!is_copied && atomic_load(&p->swap.is_over)) {
            moved_done(&m);
            return false; /* the gate stays shut: the contents are incomplete */
        }
        settle(p, &m, device);
        open_gate(p);
        process_count(p, STATUS_swap_moves_back, 1);
        process_count(p, STATUS_swap_moved_back_bytes, m.bytes);
        process_count(p, STATUS_swap_back_ns, clock_now_ns() - begun_ns);
        free_host_memory(&m);
    }
    moved_done(&m);
    return is_done;
}

/* ---- the thread ---- */

/* Makes the move that the agent wants, if any. Returns false if the move failed. */
static bool follow(struct process *p, int device)
{
    struct swap *swap = &p->swap;
    uint64_t wanted = atomic_load(&p->client.limits->devices[device].away_bytes);
    uint64_t away = atomic_load(&p->client.status->away_bytes[device]);
    uint64_t movable = atomic_load(&p->client.status->movable_bytes[device]);
    bool is_done = true;
    if (wanted > movable)
        wanted = movable;
    if (wanted <= away && (wanted > 0 || away == 0))
        return true;
    lock_take(&swap->moving);
    if (!atomic_load(&swap->is_over))
        is_done = wanted > away ? move_out(p, device, wanted - away) : move_back(p, device);
    lock_release(&swap->moving);
    if (is_done)
        return true;
    process_count(p, STATUS_swap_failed, 1);
    atomic_fetch_add(&p->client.status->swap_failures, 1);
    return false;
}

static void *run(void *argument)
{
    struct process *p = argument;
    struct swap *swap = &p->swap;
    int device = atomic_load(&p->chunks.device) - 1;
    (void)sys_call(SYS_prctl, 15 /* PR_SET_NAME */, (long)"gpumux-swap", 0, 0, 0, 0);
    (void)capture_relax(p);
    lock_take(&swap->moving);
    CUcontext context = atomic_load(&swap->is_over) ? NULL : use_context(p);
    if (context)
        (void)swap_make_copiers(p, context);
    lock_release(&swap->moving);
    while (!atomic_load(&swap->is_over)) {
        struct limits_device *limits =
            (struct limits_device *)(uintptr_t)&p->client.limits->devices[device];
        uint32_t orders = atomic_load(&limits->away_orders);
        if (!follow(p, device))
            clock_sleep_ns((uint64_t)SWAP_AGAIN_MS * CLOCK_MS_NS);
        else
            wait_on(&limits->away_orders, FUTEX_WAIT, orders, SWAP_LOOK_MS * CLOCK_MS_NS);
        (void)client_check(&p->client);
    }
    return NULL;
}

/* The thread that drains at the end of the process also ends the moves, so that thread must
 * exist. */
void swap_start(struct process *p)
{
    uint32_t no = 0;
    if (__builtin_expect(atomic_load(&p->swap.is_started), 1) ||
        !atomic_compare_exchange_strong(&p->swap.is_started, &no, 1))
        return;
    exit_check(p, &p->exit);
    if (!thread_start(run, p))
        process_count(p, STATUS_swap_failed, 1);
}

/* ---- ends ---- */

bool swap_begin_end(struct process *p)
{
    return atomic_load(&p->swap.is_started) && lock_enter(&p->swap.moving);
}

void swap_finish_end(struct process *p, CUcontext context, bool has_ended)
{
    struct swap *swap = &p->swap;
    if (has_ended) {
        chunks_forget_context(p, context);
        if (swap->context == context) { /* its buffers and streams ended, too */
            swap->context = NULL;
            swap->copier_count = 0;
        }
        int device = atomic_load(&p->chunks.device) - 1;
        if (device >= 0 && atomic_load(&swap->state) == SWAP_SHUT &&
            atomic_load(&p->client.status->away_bytes[device]) == 0)
            open_gate(p);
    }
    lock_release(&swap->moving);
}

void swap_end(struct process *p, uint64_t until_ns)
{
    struct swap *swap = &p->swap;
    if (!atomic_load(&swap->is_started))
        return;
    atomic_store(&swap->is_over, 1);
    while (!lock_try(&swap->moving)) {
        if (clock_now_ns() >= until_ns)
            return;
        clock_sleep_ns(END_LOOK_NS);
    }
    lock_release(&swap->moving);
}

void swap_reset(struct swap *swap)
{
    *swap = (struct swap){0};
}
