/*
 * Checkpoints of other processes, by pid. A locked process stops at its next call; a checkpointed
 * process has no memory on its devices until it is restored. Contents are in host memory anyway; a
 * checkpoint costs time, as measured on an H200 (33 GB in 17.0 s, and back in 5.3 s). Clients of
 * MPS cannot be checkpointed, nor processes with managed memory or memory in common with other
 * processes.
 */
#include <time.h>
#include <unistd.h>

#include "emu/device/client.h"
#include "emu/driver/driver.h"

enum {
    LOOK_AGAIN_NS = 200 * 1000,
    OUT_BYTES_PER_US = 1941, /* 33 GB in 17.0 s */
    IN_BYTES_PER_US = 6226,  /* 33 GB in 5.3 s */
};

/* One device, and the process's client on the device. */
struct target {
    struct device *device;
    struct device own; /* for a device that this process does not see */
    struct emu_client *client;
    unsigned slot;
};

/* Leaves the device locked if the process has a client there. Call without a lock. */
static bool lock_target(struct process *process, unsigned index, int pid, struct target *target)
{
    target->device = NULL;
    for (unsigned i = 0; i < process->device_count; i++) {
        if (process->devices[i].device.index == index)
            target->device = &process->devices[i].device;
    }
    if (!target->device) {
        device_init(&target->own, &process->mapping, index);
        target->device = &target->own;
    }
    device_lock_now(target->device);
    client_reap(target->device);
    struct emu_device *state = target->device->state;
    for (unsigned slot = 0; slot < state->clients_high; slot++) {
        if (!state->clients[slot].live || state->clients[slot].pid != pid)
            continue;
        target->client = &state->clients[slot];
        target->slot = slot;
        return true;
    }
    device_unlock(target->device);
    return false;
}

/* Calls act() for each client of the process, under its device's lock, until a result other than
 * CUDA_SUCCESS. CUDA_ERROR_INVALID_VALUE for a process without clients. */
static int for_each_target(int pid, int (*act)(struct target *, void *), void *argument)
{
    struct process *process;
    int r = process_ready(&process);
    if (r != CUDA_SUCCESS)
        return r;
    bool found = false;
    for (unsigned i = 0; i < process->mapping.file->device_count && r == CUDA_SUCCESS; i++) {
        struct target target;
        if (!lock_target(process, i, pid, &target))
            continue;
        found = true;
        r = target.client->mps_generation != 0 ? CUDA_ERROR_NOT_SUPPORTED : act(&target, argument);
        device_unlock(target.device);
    }
    return r == CUDA_SUCCESS && !found ? CUDA_ERROR_INVALID_VALUE : r;
}

static int state_of(const struct target *target)
{
    return (int)atomic_load_explicit(&target->client->checkpoint_state, memory_order_acquire);
}

static void set_state(struct target *target, CUprocessState state)
{
    device_save(target->device, &target->client->checkpoint_state,
                sizeof(target->client->checkpoint_state));
    atomic_store_explicit(&target->client->checkpoint_state, (uint32_t)state, memory_order_release);
    device_commit(target->device);
}

struct step {
    CUprocessState from, to;
};

static int check_state(struct target *target, void *argument)
{
    const struct step *step = argument;
    return state_of(target) == (int)step->from ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

static int change_state(struct target *target, void *argument)
{
    const struct step *step = argument;
    set_state(target, step->to);
    return CUDA_SUCCESS;
}

/* Changes the state of all of the process's clients, or of none. */
static int move_state(int pid, struct step *step)
{
    int r = for_each_target(pid, check_state, step);
    return r == CUDA_SUCCESS ? for_each_target(pid, change_state, step) : r;
}

static int read_state(struct target *target, void *argument)
{
    *(int *)argument = state_of(target);
    return CUDA_SUCCESS;
}

CUDA_API int cuCheckpointProcessGetState(int pid, int *ret_state)
{
    return ret_state ? for_each_target(pid, read_state, ret_state) : CUDA_ERROR_INVALID_VALUE;
}

static int check_idle(struct target *target, void *argument)
{
    const struct emu_client *client = target->client;
    (void)argument;
    for (uint64_t left = client->streams_used; left != 0; left &= left - 1) {
        const struct emu_stream *stream = &client->streams[__builtin_ctzll(left)];
        if (stream->head != atomic_load_explicit(&stream->tail, memory_order_acquire))
            return CUDA_ERROR_NOT_READY;
    }
    return CUDA_SUCCESS;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Waits until all work that the process had launched is done; without a limit if timeout_ms is
 * 0. */
static int wait_idle(int pid, unsigned timeout_ms)
{
    uint64_t start_ms = now_ms();
    int r;
    while ((r = for_each_target(pid, check_idle, NULL)) == CUDA_ERROR_NOT_READY) {
        if (timeout_ms > 0 && now_ms() - start_ms >= timeout_ms)
            break;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_AGAIN_NS}, NULL);
    }
    return r;
}

CUDA_API int cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *wanted)
{
    struct step lock = {CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED};
    struct step unlock = {CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING};
    if (pid == (int)getpid())
        return CUDA_ERROR_NOT_SUPPORTED; /* it could not call to be unlocked */
    int r = move_state(pid, &lock);
    if (r != CUDA_SUCCESS)
        return r;
    r = wait_idle(pid, wanted ? wanted->timeoutMs : 0);
    if (r == CUDA_ERROR_NOT_READY)
        (void)move_state(pid, &unlock);
    return r;
}

CUDA_API int cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *wanted)
{
    struct step unlock = {CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING};
    (void)wanted;
    return move_state(pid, &unlock);
}

static int add_bytes(struct target *target, void *argument)
{
    *(uint64_t *)argument += target->client->memory_bytes + target->client->checkpoint_bytes;
    return CUDA_SUCCESS;
}

static int check_movable(struct target *target, void *argument)
{
    (void)argument;
    return atomic_load_explicit(&target->client->is_unmovable, memory_order_relaxed)
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

/* Spends the emulated time that moving the process's memory takes at that rate. */
static int spend(int pid, uint64_t bytes_per_us)
{
    struct process *process;
    uint64_t bytes = 0;
    int r = process_ready(&process);
    if (r == CUDA_SUCCESS)
        r = for_each_target(pid, add_bytes, &bytes);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t until_ns = mapping_now_ns(&process->mapping) + bytes * 1000 / bytes_per_us;
    while (mapping_now_ns(&process->mapping) < until_ns)
        device_sleep(&process->devices[0].device, until_ns, mapping_alarms(&process->mapping));
    return CUDA_SUCCESS;
}

static int take_memory_away(struct target *target, void *argument)
{
    struct emu_device *state = target->device->state;
    struct emu_client *client = target->client;
    (void)argument;
    int r = check_idle(target, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    device_save(target->device, &state->memory_used_bytes, sizeof(state->memory_used_bytes));
    device_save(target->device, &client->memory_bytes, sizeof(client->memory_bytes));
    device_save(target->device, &client->checkpoint_bytes, sizeof(client->checkpoint_bytes));
    client->checkpoint_bytes = client->memory_bytes;
    state->memory_used_bytes -= client->memory_bytes;
    client->memory_bytes = 0;
    set_state(target, CU_PROCESS_STATE_CHECKPOINTED);
    return CUDA_SUCCESS;
}

CUDA_API int cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *wanted)
{
    struct step step = {CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED};
    (void)wanted;
    int r = for_each_target(pid, check_state, &step);
    if (r == CUDA_SUCCESS)
        r = for_each_target(pid, check_movable, NULL);
    if (r == CUDA_SUCCESS)
        r = wait_idle(pid, 0);
    if (r == CUDA_SUCCESS)
        r = spend(pid, OUT_BYTES_PER_US);
    return r == CUDA_SUCCESS ? for_each_target(pid, take_memory_away, NULL) : r;
}

static int give_memory_back(struct target *target, void *argument)
{
    struct emu_device *state = target->device->state;
    struct emu_client *client = target->client;
    (void)argument;
    if (client->checkpoint_bytes == 0)
        return CUDA_SUCCESS; /* without memory, or already restored */
    if (client->checkpoint_bytes > state->model.memory_bytes - state->memory_used_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device_save(target->device, &state->memory_used_bytes, sizeof(state->memory_used_bytes));
    device_save(target->device, &client->memory_bytes, sizeof(client->memory_bytes));
    device_save(target->device, &client->checkpoint_bytes, sizeof(client->checkpoint_bytes));
    client->memory_bytes = client->checkpoint_bytes;
    state->memory_used_bytes += client->checkpoint_bytes;
    client->checkpoint_bytes = 0;
    device_commit(target->device);
    return CUDA_SUCCESS;
}

/* Restoring to other devices, as args->gpuPairs may ask, is not emulated. */
CUDA_API int cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *wanted)
{
    struct step step = {CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED};
    if (wanted && wanted->gpuPairsCount > 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    int r = for_each_target(pid, check_state, &step);
    if (r == CUDA_SUCCESS)
        r = for_each_target(pid, give_memory_back, NULL);
    if (r == CUDA_SUCCESS)
        r = spend(pid, IN_BYTES_PER_US);
    return r == CUDA_SUCCESS ? for_each_target(pid, change_state, &step) : r;
}

/* Returns the thread that must run for a restore. Here the caller does the restore, so any thread
 * is correct. */
CUDA_API int cuCheckpointProcessGetRestoreThreadId(int pid, int *ret_thread)
{
    int state;
    if (!ret_thread)
        return CUDA_ERROR_INVALID_VALUE;
    int r = for_each_target(pid, read_state, &state);
    if (r == CUDA_SUCCESS)
        *ret_thread = pid;
    return r;
}
