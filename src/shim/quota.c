#include "shim/quota.h"

enum { TRIES = 2 };

/* No device has as much: no sum of slots overflows by one request. */
#define REQUEST_BYTES_MAX (UINT64_C(1) << 56)

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static bool is_index(int device)
{
    return device >= 0 && device < PAGE_DEVICES_MAX;
}

uint64_t quota_limit(const struct client *client, int device)
{
    if (!is_index(device))
        return 0;
    return atomic_load_explicit(&client->limits->devices[device].quota_bytes, memory_order_relaxed);
}

uint64_t quota_held(const struct client *client, int device)
{
    uint64_t sum = 0;
    uint32_t slot_count = atomic_load_explicit(&client->limits->slot_count, memory_order_relaxed);
    if (!is_index(device))
        return 0;
    for (uint32_t i = 0; i < slot_count && i < PAGE_PROCESSES_MAX; i++) {
        sum = add_saturating(sum, atomic_load(&client->ledger->held_bytes[device][i]));
        sum = add_saturating(sum, atomic_load_explicit(&client->limits->overhead_bytes[device][i],
                                                       memory_order_relaxed));
    }
    return sum;
}

/* The shim's own view for `describe`; the peak is over all devices. */
static void note_held(const struct client *client, int device, uint64_t held)
{
    struct status_page *status = client->status;
    uint64_t all = 0;
    atomic_store_explicit(&status->held_bytes[device], held, memory_order_relaxed);
    for (int i = 0; i < PAGE_DEVICES_MAX; i++)
        all =
            add_saturating(all, atomic_load_explicit(&status->held_bytes[i], memory_order_relaxed));
    uint64_t peak = atomic_load_explicit(&status->counters[STATUS_held_peak], memory_order_relaxed);
    while (all > peak &&
           !atomic_compare_exchange_weak(&status->counters[STATUS_held_peak], &peak, all)) {
    }
}

static void subtract(_Atomic uint64_t *slot, uint64_t bytes)
{
    uint64_t held = atomic_load(slot);
    while (!atomic_compare_exchange_weak(slot, &held, held > bytes ? held - bytes : 0)) {
    }
}

bool quota_reserve(const struct client *client, int device, uint64_t bytes)
{
    if (!is_index(device))
        return client->limits->device_count == 0;
    if (bytes > REQUEST_BYTES_MAX)
        return false;
    _Atomic uint64_t *slot = &client->ledger->held_bytes[device][client->slot];
    uint64_t limit = quota_limit(client, device);
    for (int i = 0; i < TRIES; i++) {
        if (limit && bytes > limit)
            return false;
        uint64_t held = atomic_fetch_add(slot, bytes) + bytes;
        if (!limit || quota_held(client, device) <= limit) {
            note_held(client, device, held);
            return true;
        }
        subtract(slot, bytes);
    }
    return false;
}

void quota_release(const struct client *client, int device, uint64_t bytes)
{
    if (!is_index(device))
        return;
    _Atomic uint64_t *slot = &client->ledger->held_bytes[device][client->slot];
    subtract(slot, bytes);
    note_held(client, device, atomic_load_explicit(slot, memory_order_relaxed));
}
