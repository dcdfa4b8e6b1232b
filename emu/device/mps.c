#include "emu/device/mps.h"

#include <unistd.h>

#include "emu/abi/cuda_abi.h"
#include "emu/device/claim.h"
#include "emu/device/fault.h"

bool mps_is_client(const struct device *device, const struct emu_client *client)
{
    const struct emu_mps *mps = &device->state->mps;
    return client->live && mps->state != EMU_MPS_NONE && !mps->is_implied &&
           client->mps_generation == mps->generation;
}

unsigned mps_client_count(const struct device *device)
{
    unsigned count = 0;
    for (unsigned i = 0; i < device->state->clients_high; i++)
        count += mps_is_client(device, &device->state->clients[i]);
    return count;
}

int mps_find_client(const struct device *device, int32_t pid)
{
    for (unsigned i = 0; i < device->state->clients_high; i++) {
        const struct emu_client *client = &device->state->clients[i];
        if (client->pid == pid && mps_is_client(device, client))
            return (int)i;
    }
    return DEVICE_NO_SLOT;
}

/* Call under the lock. */
static void lose_server(struct device *device)
{
    struct emu_device *state = device->state;
    for (unsigned i = 0; i < state->clients_high; i++) {
        if (mps_is_client(device, &state->clients[i]))
            fault_end_client(device, i, CUDA_ERROR_MPS_RPC_FAILURE);
    }
    device_save(device, &state->mps, sizeof(state->mps));
    state->mps.state = EMU_MPS_NONE;
    state->mps.server_pid = 0;
    device_commit(device);
    mapping_alarm(device->mapping);
}

void mps_reap(struct device *device)
{
    const struct emu_mps *mps = &device->state->mps;
    if (mps->state == EMU_MPS_NONE || mps->is_implied || mps->server_pid == (int32_t)getpid() ||
        claim_is_held(device, CLAIM_SERVER))
        return;
    lose_server(device);
}

int mps_server_begin(struct device *device)
{
    struct emu_device *state = device->state;
    int r = 0;
    device_lock_now(device);
    mps_reap(device);
    if (state->health.is_lost) {
        r = -ERR_GONE;
    } else if (state->mps.is_implied || !claim_take(device, CLAIM_SERVER)) {
        r = -ERR_BUSY;
    } else {
        device_save(device, &state->mps, sizeof(state->mps));
        state->mps.state = EMU_MPS_READY;
        state->mps.generation++;
        state->mps.server_pid = (int32_t)getpid();
        device_commit(device);
    }
    device_unlock(device);
    return r;
}

void mps_server_end(struct device *device)
{
    device_lock_now(device);
    lose_server(device);
    claim_drop(device, CLAIM_SERVER);
    device_unlock(device);
}

void mps_client_left(struct device *device)
{
    struct emu_device *state = device->state;
    if (state->mps.state != EMU_MPS_FAULTED || mps_client_count(device) > 0)
        return;
    device_save(device, &state->mps.state, sizeof(state->mps.state));
    state->mps.state = EMU_MPS_READY;
}
