/*
 * The clients of a device: one slot for each process that has a context on the device. A process
 * has the claim (claim.h) of each of its slots. When the process has ended, the next process that
 * finds the claim free frees the slot's resources.
 */
#pragma once
#include "emu/device/device.h"

/* The terms on which a process shares a device, as granted by mps_join.h. */
struct client_terms {
    int32_t server_pid; /* pid of the MPS server that the process joins; 0: none */
    uint32_t sms;       /* SMs that the process may use */
    uint32_t share_permille;
    uint32_t priority;
    uint64_t memory_limit_bytes; /* 0: no limit */
};

/* Takes a slot, with only the legacy stream, as device->own_slot. Call without a lock. Errors are
 * CUDA_ERROR_…: DEVICE_UNAVAILABLE (no free slot), UNKNOWN (device lost), MPS_CONNECTION_FAILED
 * (server has ended), MPS_SERVER_NOT_READY (server waits for faulted clients to leave),
 * MPS_MAX_CLIENTS_REACHED (server has MPS_CLIENTS_MAX clients). */
int client_take(struct device *device, const struct client_terms *terms);
/* Frees device->own_slot with its memory, streams and queued work. Call without a lock. */
void client_release(struct device *device);
/* Excludes this process from checkpoints for the rest of its life (checkpoint.c). */
void client_pin_down(struct device *device);
/* Frees the slots of processes that have ended, and handles the end of the MPS server. Call under
 * the device's lock. */
void client_reap(struct device *device);
/* Drops the client's running operations. Call under the device's lock, after device_save_core();
 * the caller commits. */
void client_drop_running(struct device *device, unsigned slot);
