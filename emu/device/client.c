#include "emu/device/client.h"

#include <string.h>
#include <unistd.h>

#include "emu/abi/cuda_abi.h"
#include "emu/device/claim.h"
#include "emu/device/fault.h"
#include "emu/device/mps.h"

/* Saves the part of a client before its events and streams, which a new owner initialises
 * itself. */
static void save_head(struct device *device, const struct emu_client *client)
{
    device_save(device, client, offsetof(struct emu_client, events));
}

void client_drop_running(struct device *device, unsigned slot)
{
    struct emu_device *state = device->state;
    unsigned kept = 0;
    for (unsigned i = 0; i < state->running_count; i++) {
        if (state->running[i].client != slot)
            state->running[kept++] = state->running[i];
    }
    state->running_count = kept;
}

static void empty_slot(struct device *device, unsigned slot)
{
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[slot];
    device_save_core(device);
    save_head(device, client);
    client_drop_running(device, slot);
    state->memory_used_bytes -= client->memory_bytes;
    client->memory_bytes = 0;
    client->streams_used = client->streams_closing = 0;
    client->pid = 0;
    client->live = 0;
    while (state->clients_high > 0 && !state->clients[state->clients_high - 1].live)
        state->clients_high--;
    mps_client_left(device);
    device_commit(device);
}

void client_reap(struct device *device)
{
    struct emu_device *state = device->state;
    mps_reap(device);
    for (unsigned slot = 0; slot < state->clients_high; slot++) {
        if (!state->clients[slot].live || (int)slot == device->own_slot ||
            claim_is_held(device, slot))
            continue;
        fault_check_left(device, slot);
        empty_slot(device, slot);
    }
}

static void fill_slot(struct device *device, unsigned slot, const struct client_terms *terms)
{
    struct emu_device *state = device->state;
    struct emu_client *client = &state->clients[slot];
    struct emu_stream *legacy = &client->streams[0];
    /* The slot is not live: if the client is killed here, no process reads these bytes. */
    memset(client->events, 0, sizeof(client->events));
    memset(legacy, 0, offsetof(struct emu_stream, ring));
    save_head(device, client);
    device_save(device, &state->clients_high, sizeof(state->clients_high));
    device_save(device, &state->memory_used_bytes, sizeof(state->memory_used_bytes));
    client->pid = (int32_t)getpid();
    client->mps_generation =
        terms->server_pid != 0 || state->mps.is_implied ? state->mps.generation : 0;
    client->share_permille = terms->share_permille;
    client->priority = terms->priority;
    client->memory_limit_bytes = terms->memory_limit_bytes;
    atomic_store_explicit(&client->sticky_error, 0, memory_order_relaxed);
    atomic_store_explicit(&client->checkpoint_state, 0, memory_order_relaxed);
    atomic_store_explicit(&client->is_unmovable, 0, memory_order_relaxed);
    client->checkpoint_bytes = 0;
    client->memory_bytes = state->context_bytes;
    state->memory_used_bytes += state->context_bytes;
    client->streams_used = 1;
    client->streams_closing = 0;
    client->live = 1;
    if (state->clients_high <= slot)
        state->clients_high = slot + 1;
    device_commit(device);
}

/* Returns whether the device accepts a client on these terms, as a CUDA result. Call under the
 * lock. */
static int check_terms(const struct device *device, const struct client_terms *terms)
{
    const struct emu_device *state = device->state;
    if (state->health.is_lost)
        return CUDA_ERROR_UNKNOWN;
    if (state->context_bytes > state->model.memory_bytes - state->memory_used_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (terms->server_pid == 0)
        return CUDA_SUCCESS;
    if (state->mps.server_pid != terms->server_pid)
        return CUDA_ERROR_MPS_CONNECTION_FAILED;
    if (state->mps.state == EMU_MPS_FAULTED)
        return CUDA_ERROR_MPS_SERVER_NOT_READY;
    return mps_client_count(device) < MPS_CLIENTS_MAX ? CUDA_SUCCESS
                                                      : CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
}

int client_take(struct device *device, const struct client_terms *terms)
{
    struct emu_device *state = device->state;
    device_lock_now(device);
    client_reap(device);
    int r = check_terms(device, terms);
    if (r == CUDA_SUCCESS)
        r = CUDA_ERROR_DEVICE_UNAVAILABLE;
    for (unsigned slot = 0; slot < EMU_CLIENTS_MAX && r == CUDA_ERROR_DEVICE_UNAVAILABLE; slot++) {
        if (state->clients[slot].live || !claim_take(device, slot))
            continue;
        fill_slot(device, slot, terms);
        device->own_slot = (int)slot;
        r = CUDA_SUCCESS;
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
    claim_drop(device, slot);
    device_unlock(device);
}

void client_pin_down(struct device *device)
{
    atomic_store_explicit(&device->state->clients[device->own_slot].is_unmovable, 1,
                          memory_order_relaxed);
}
