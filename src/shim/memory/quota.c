#include <time.h>

#include "shim/memory/quota.h"
#include "shim/sys/fault_point.h"

enum {
    TRIES = 2,
    SMALL_PIECE_BYTES = 4 << 10,
    LARGE_PIECE_BYTES = 2 << 20,
    LARGE_FROM_BYTES = 1 << 20,
};

/* More than any device has: one request cannot overflow a sum of slots. */
#define REQUEST_BYTES_MAX (UINT64_C(1) << 56)
#define BEING_MADE        UINT64_MAX

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static bool is_index(int device)
{
    return device >= 0 && device < PAGE_DEVICES_MAX;
}

uint64_t quota_charged(uint64_t bytes)
{
    uint64_t piece = bytes < LARGE_FROM_BYTES ? SMALL_PIECE_BYTES : LARGE_PIECE_BYTES;
    return add_saturating(bytes, piece - 1) / piece * piece;
}

uint64_t quota_limit(const struct client *client, int device)
{
    if (!is_index(device))
        return 0;
    return atomic_load_explicit(&client->limits->devices[device].quota_bytes, memory_order_relaxed);
}

/* Returns whether the agent's measurement includes the slot's contexts. */
static bool is_measured(const struct client *client, int device, uint32_t slot)
{
    return atomic_load(&client->ledger->context_ms[device][slot]) <
           atomic_load_explicit(&client->limits->measured_ms[device][slot], memory_order_acquire);
}

static uint64_t held_in(const struct client *client, int device, uint32_t slot)
{
    uint64_t sum = atomic_load(&client->ledger->held_bytes[device][slot]);
    if (!is_measured(client, device, slot))
        sum = add_saturating(sum, atomic_load(&client->ledger->context_bytes[device][slot]));
    return add_saturating(sum, atomic_load_explicit(&client->limits->overhead_bytes[device][slot],
                                                    memory_order_relaxed));
}

/* The limits may be those of an agent that is gone; the present agent maintains the ledger. */
static uint32_t slots_used(const struct client *client)
{
    uint32_t of_limits = atomic_load_explicit(&client->limits->slot_count, memory_order_relaxed);
    uint32_t of_ledger = atomic_load_explicit(&client->ledger->slot_count, memory_order_relaxed);
    return of_limits > of_ledger ? of_limits : of_ledger;
}

uint64_t quota_held(const struct client *client, int device)
{
    uint64_t sum = 0;
    uint32_t slot_count = slots_used(client);
    if (!is_index(device))
        return 0;
    for (uint32_t i = 0; i < PAGE_PROCESSES_MAX; i++)
        if (i < slot_count || i == client->slot)
            sum = add_saturating(sum, held_in(client, device, i));
    return sum;
}

uint64_t quota_held_by_process(const struct client *client, int device)
{
    return is_index(device) ? held_in(client, device, client->slot) : 0;
}

struct quota_view quota_view(const struct client *client, int device)
{
    struct quota_view view = {.limit = quota_limit(client, device)};
    view.held = view.limit ? quota_held(client, device) : 0;
    view.left = view.held < view.limit ? view.limit - view.held : 0;
    return view;
}

static void subtract(_Atomic uint64_t *word, uint64_t bytes)
{
    uint64_t held = atomic_load(word);
    while (!atomic_compare_exchange_weak(word, &held, held > bytes ? held - bytes : 0)) {
    }
}

/*
 * Updates the shim's own numbers for `describe`; the peak is over all devices. An allocation is
 * added here after the ledger and removed before it, so these numbers never exceed the ledger's,
 * and never include a reservation of another thread that is being refused.
 */
static void note_granted(const struct client *client, int device, uint64_t bytes)
{
    struct status_page *status = client->status;
    uint64_t all = 0;
    atomic_fetch_add(&status->held_bytes[device], bytes);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        all =
            add_saturating(all, atomic_load_explicit(&status->held_bytes[i], memory_order_relaxed));
    uint64_t peak = atomic_load_explicit(&status->counters[STATUS_held_peak], memory_order_relaxed);
    while (all > peak &&
           !atomic_compare_exchange_weak(&status->counters[STATUS_held_peak], &peak, all)) {
    }
}

/* Adds to a word of the process's own slot, if the sum stays within the limit. */
static bool try_to_add(const struct client *client, int device, _Atomic uint64_t *word,
                       uint64_t bytes)
{
    uint64_t limit = quota_limit(client, device);
    for (int i = 0; i < TRIES; i++) {
        if (limit && bytes > limit)
            return false;
        FAULT_POINT();
        atomic_fetch_add(word, bytes);
        FAULT_POINT();
        if (!limit || quota_held(client, device) <= limit)
            return true;
        subtract(word, bytes);
        FAULT_POINT();
    }
    return false;
}

bool quota_reserve(const struct client *client, int device, uint64_t bytes)
{
    if (!is_index(device))
        return client->limits->device_count == 0;
    _Atomic uint64_t *word = &client->ledger->held_bytes[device][client->slot];
    if (bytes > REQUEST_BYTES_MAX || !try_to_add(client, device, word, bytes))
        return false;
    note_granted(client, device, bytes);
    return true;
}

void quota_force(const struct client *client, int device, uint64_t bytes)
{
    if (!is_index(device) || bytes > REQUEST_BYTES_MAX)
        return;
    atomic_fetch_add(&client->ledger->held_bytes[device][client->slot], bytes);
    note_granted(client, device, bytes);
    FAULT_POINT();
}

void quota_release(const struct client *client, int device, uint64_t bytes)
{
    if (!is_index(device) || bytes == 0)
        return;
    _Atomic uint64_t *word = &client->ledger->held_bytes[device][client->slot];
    FAULT_POINT();
    subtract(&client->status->held_bytes[device], bytes);
    subtract(word, bytes);
    FAULT_POINT();
}

/* ---- contexts ---- */

static uint64_t context_cost(const struct client *client, int device)
{
    uint64_t bytes =
        atomic_load_explicit(&client->limits->devices[device].context_bytes, memory_order_relaxed);
    return bytes > 0 && bytes < REQUEST_BYTES_MAX ? bytes : LIMITS_CONTEXT_BYTES;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool quota_begin_context(const struct client *client, int device)
{
    if (!is_index(device))
        return client->limits->device_count == 0;
    _Atomic uint64_t *bytes = &client->ledger->context_bytes[device][client->slot];
    _Atomic uint64_t *made_ms = &client->ledger->context_ms[device][client->slot];
    /* Measured contexts no longer count here; clear them, or the new context_ms would revive
     * them. */
    if (is_measured(client, device, client->slot))
        atomic_store(bytes, 0);
    FAULT_POINT();
    uint64_t before_ms = atomic_exchange(made_ms, BEING_MADE);
    if (try_to_add(client, device, bytes, context_cost(client, device)))
        return true;
    atomic_store(made_ms, before_ms);
    FAULT_POINT();
    return false;
}

void quota_end_context(const struct client *client, int device, bool is_made)
{
    if (!is_index(device))
        return;
    FAULT_POINT();
    if (!is_made)
        subtract(&client->ledger->context_bytes[device][client->slot],
                 context_cost(client, device));
    FAULT_POINT();
    atomic_store(&client->ledger->context_ms[device][client->slot], now_ms());
    FAULT_POINT();
}

void quota_forget_context(const struct client *client, int device)
{
    if (!is_index(device))
        return;
    FAULT_POINT();
    subtract(&client->ledger->context_bytes[device][client->slot], context_cost(client, device));
    FAULT_POINT();
}
