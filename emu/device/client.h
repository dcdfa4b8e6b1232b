/*
 * The clients of a device: one slot for each process that has a context on it. A process keeps the
 * claim (claim.h) of each of its slots; when it has ended, whoever notices gives back what the slot
 * held.
 */
#pragma once
#include "emu/device/device.h"

/* How a process shares a device, once it has asked (mps_join.h). */
struct client_terms {
    int32_t server_pid; /* of the MPS server that it joins; 0: it joins none */
    uint32_t sms;       /* that it may use */
    uint32_t share_permille;
    uint32_t priority;
    uint64_t memory_limit_bytes; /* 0: none */
};

/* Under no lock: takes a slot, empty and with the legacy stream, and makes it device->own_slot.
 * Returns a CUDA result: CUDA_ERROR_DEVICE_UNAVAILABLE when all EMU_CLIENTS_MAX are taken by living
 * processes, CUDA_ERROR_UNKNOWN when the device is lost, CUDA_ERROR_MPS_CONNECTION_FAILED when the
 * server is gone, CUDA_ERROR_MPS_SERVER_NOT_READY when it waits for clients with a fault to leave,
 * CUDA_ERROR_MPS_MAX_CLIENTS_REACHED when it has MPS_CLIENTS_MAX.
 */
int client_take(struct device *device, const struct client_terms *terms);
/* Under no lock: gives device->own_slot back with all it holds: memory, streams, queued work. */
void client_release(struct device *device);
/* No checkpoint is made of this process from now on (checkpoint.c). */
void client_pin_down(struct device *device);
/* Under the device's lock: notices processes that have ended, the MPS server's too. */
void client_reap(struct device *device);
/* Under the device's lock, after device_save_core(), without commit: what the client has running
 * runs no more. */
void client_drop_running(struct device *device, unsigned slot);
