#include "emu/device/fault.h"

#include "emu/abi/cuda_abi.h"
#include "emu/device/client.h"
#include "emu/device/mps.h"

static struct emu_client *client_at(struct device *device, unsigned slot)
{
    return &device->state->clients[slot];
}

/* The caller commits. */
static void end_client(struct device *device, unsigned slot, uint32_t error)
{
    struct emu_client *client = client_at(device, slot);
    if (atomic_load_explicit(&client->sticky_error, memory_order_relaxed) != 0)
        return;
    device_save(device, &client->sticky_error, sizeof(client->sticky_error));
    atomic_store_explicit(&client->sticky_error, error, memory_order_release);
    client_drop_running(device, slot);
}

/* The caller commits. */
static void add_xid(struct device *device, uint32_t number, int32_t pid)
{
    struct emu_health *health = &device->state->health;
    struct emu_xid *xid = &health->xids[health->xid_count % EMU_XIDS_MAX];
    device_save(device, xid, sizeof(*xid));
    device_save(device, &health->xid_count, sizeof(health->xid_count));
    *xid = (struct emu_xid){
        .time_ns = device->state->usage.time_ns,
        .number = number,
        .pid = pid,
    };
    health->xid_count++;
}

static void commit_and_wake(struct device *device)
{
    device_commit(device);
    mapping_alarm(device->mapping);
}

static bool shares_fate(const struct emu_device *state, const struct emu_client *client)
{
    return client->mps_generation != 0 && !state->mps.is_implied;
}

void fault_strike(struct device *device, unsigned slot, uint32_t error, uint32_t xid)
{
    struct emu_device *state = device->state;
    const struct emu_client *guilty = client_at(device, slot);
    device_save_core(device);
    if (xid != 0)
        add_xid(device, xid, guilty->pid);
    end_client(device, slot, error);
    if (shares_fate(state, guilty)) {
        for (unsigned i = 0; i < state->clients_high; i++) {
            const struct emu_client *other = client_at(device, i);
            if (other->live && other->mps_generation == guilty->mps_generation)
                end_client(device, i, error);
        }
        if (state->mps.generation == guilty->mps_generation) {
            device_save(device, &state->mps.state, sizeof(state->mps.state));
            state->mps.state = EMU_MPS_FAULTED;
        }
    }
    commit_and_wake(device);
}

void fault_strike_all(struct device *device, uint32_t error)
{
    struct emu_device *state = device->state;
    device_save_core(device);
    for (unsigned i = 0; i < state->clients_high; i++) {
        if (client_at(device, i)->live)
            end_client(device, i, error);
    }
    if (state->mps.state == EMU_MPS_READY && mps_client_count(device) > 0) {
        device_save(device, &state->mps.state, sizeof(state->mps.state));
        state->mps.state = EMU_MPS_FAULTED;
    }
    commit_and_wake(device);
}

void fault_end_client(struct device *device, unsigned slot, uint32_t error)
{
    device_save_core(device);
    end_client(device, slot, error);
    commit_and_wake(device);
}

void fault_check_left(struct device *device, unsigned slot)
{
    const struct emu_client *client = client_at(device, slot);
    if (!shares_fate(device->state, client) ||
        atomic_load_explicit(&client->sticky_error, memory_order_relaxed) != 0)
        return;
    uint64_t longest_ns = 0;
    for (uint64_t left = client->streams_used; left != 0; left &= left - 1) {
        uint64_t ns =
            device_stream_bound_ns(device, slot, (unsigned)__builtin_ctzll(left), UINT64_MAX);
        if (ns > longest_ns)
            longest_ns = ns;
    }
    if (longest_ns > FAULT_OUTSTANDING_NS_MAX)
        fault_strike(device, slot, CUDA_ERROR_ILLEGAL_ADDRESS, XID_MMU_FAULT);
}

void fault_report_xid(struct device *device, uint32_t xid, int32_t pid)
{
    add_xid(device, xid, pid);
    commit_and_wake(device);
}

void fault_ecc(struct device *device, int slot)
{
    struct emu_health *health = &device->state->health;
    device_save(device, health, offsetof(struct emu_health, xid_count));
    health->ecc_now.uncorrected++;
    health->ecc_ever.uncorrected++;
    health->rows_pending++;
    add_xid(device, XID_ROW_REMAP, 0);
    if (slot == DEVICE_NO_SLOT) {
        add_xid(device, XID_DOUBLE_BIT, 0);
        add_xid(device, XID_UNCONTAINED, 0);
        fault_strike_all(device, CUDA_ERROR_ECC_UNCORRECTABLE);
    } else {
        fault_strike(device, (unsigned)slot, CUDA_ERROR_ECC_UNCORRECTABLE, XID_CONTAINED);
    }
}

void fault_lose(struct device *device, bool is_told)
{
    struct emu_health *health = &device->state->health;
    device_save(device, &health->is_lost, sizeof(health->is_lost));
    health->is_lost = 1;
    if (is_told)
        add_xid(device, XID_LOST, 0);
    fault_strike_all(device, CUDA_ERROR_UNKNOWN);
}

void fault_slow(struct device *device, uint32_t lowered_permille, uint64_t reasons)
{
    struct emu_health *health = &device->state->health;
    device_save(device, health, offsetof(struct emu_health, ecc_now));
    health->clock_lowered_permille = lowered_permille;
    health->clock_reasons = reasons;
    device_commit(device);
}

void fault_reset(struct device *device)
{
    struct emu_health *health = &device->state->health;
    device_save(device, health, offsetof(struct emu_health, xid_count));
    health->is_lost = 0;
    health->clock_lowered_permille = 0;
    health->clock_reasons = 0;
    health->ecc_now = (struct emu_ecc){0};
    health->rows_remapped += health->rows_pending;
    health->rows_pending = 0;
    commit_and_wake(device);
}

uint64_t fault_stretch_ns(const struct emu_device *state, uint64_t duration_ns)
{
    uint32_t lowered = state->health.clock_lowered_permille;
    if (lowered == 0)
        return duration_ns;
    unsigned __int128 stretched = (unsigned __int128)duration_ns * 1000 / (1000 - lowered);
    return stretched > CONTENTION_DURATION_NS_MAX ? CONTENTION_DURATION_NS_MAX
                                                  : (uint64_t)stretched;
}
