#include "emu/client.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Far behind any data, so that a lock never covers a byte that someone reads. */
#define LOCKS_START ((off_t)1 << 48)

static struct flock slot_lock(const struct device *device, unsigned slot, short type)
{
    return (struct flock){
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = LOCKS_START + (off_t)device->index * EMU_CLIENTS_MAX + (off_t)slot,
        .l_len = 1,
    };
}

static bool lock_slot(const struct device *device, unsigned slot)
{
    struct flock lock = slot_lock(device, slot, F_WRLCK);
    return fcntl(device->mapping->fd, F_OFD_SETLK, &lock) == 0;
}

static void unlock_slot(const struct device *device, unsigned slot)
{
    struct flock lock = slot_lock(device, slot, F_UNLCK);
    (void)fcntl(device->mapping->fd, F_OFD_SETLK, &lock);
}

/* Whether someone else's process holds it. */
static bool is_slot_locked(const struct device *device, unsigned slot)
{
    struct flock lock = slot_lock(device, slot, F_WRLCK);
    /* If the question itself fails, the client counts as living: its memory must not be given away.
     */
    return fcntl(device->mapping->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* The part of a client before its events and streams, which a new owner sets up itself. */
static void save_head(struct device *device, const struct emu_client *client)
{
    device_save(device, client, offsetof(struct emu_client, events));
}

static void empty_slot(struct device *device, unsigned slot)
{
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[slot];
    device_save_core(device);
    save_head(device, client);
    unsigned kept = 0;
    for (unsigned i = 0; i < state->running_count; i++) {
        if (state->running[i].client != slot)
            state->running[kept++] = state->running[i];
    }
    state->running_count = kept;
    state->memory_used_bytes -= client->memory_bytes;
    client->memory_bytes = 0;
    client->streams_used = client->streams_closing = 0;
    client->pid = 0;
    client->live = 0;
    while (state->clients_high > 0 && !state->clients[state->clients_high - 1].live)
        state->clients_high--;
    device_commit(device);
}

void client_reap(struct device *device)
{
    struct emu_device *state = device->state;
    for (unsigned slot = 0; slot < state->clients_high; slot++) {
        if (state->clients[slot].live && (int)slot != device->own_slot &&
            !is_slot_locked(device, slot))
            empty_slot(device, slot);
    }
}

static void fill_slot(struct device *device, unsigned slot)
{
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[slot];
    struct emu_stream *legacy = &client->streams[0];
    /* The slot is not live: a client killed here leaves nothing that anyone looks at. */
    memset(client->events, 0, sizeof(client->events));
    memset(legacy, 0, offsetof(struct emu_stream, ring));
    save_head(device, client);
    device_save(device, &state->clients_high, sizeof(state->clients_high));
    client->pid = (int32_t)getpid();
    client->mps_generation = state->mps.is_implied ? state->mps.generation : 0;
    client->share_permille = CONTENTION_FULL_PERMILLE;
    client->priority = EMU_PRIORITY_NORMAL;
    atomic_store_explicit(&client->sticky_error, 0, memory_order_relaxed);
    client->memory_bytes = 0;
    client->streams_used = 1;
    client->streams_closing = 0;
    client->live = 1;
    if (state->clients_high <= slot)
        state->clients_high = slot + 1;
    device_commit(device);
}

int client_take(struct device *device)
{
    struct emu_device *state = device->state;
    device_lock_now(device);
    client_reap(device);
    int r = -ERR_BUSY;
    for (unsigned slot = 0; slot < EMU_CLIENTS_MAX; slot++) {
        if (state->clients[slot].live || !lock_slot(device, slot))
            continue;
        fill_slot(device, slot);
        device->own_slot = (int)slot;
        r = 0;
        break;
    }
    device_unlock(device);
    return r;
}

void client_release(struct device *device)
{
    if (device->own_slot == DEVICE_NO_SLOT)
        return;
    unsigned slot = (unsigned)device->own_slot;
    device_lock_now(device);
    empty_slot(device, slot);
    device->own_slot = DEVICE_NO_SLOT;
    unlock_slot(device, slot);
    device_unlock(device);
}
