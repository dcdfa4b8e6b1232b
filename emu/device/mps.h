/*
 * The MPS server in the state of a device. A server is a process with CLAIM_SERVER; a device has at
 * most one server. Its clients have the server's generation. When the server ends, in whatever way,
 * its clients get CUDA_ERROR_MPS_RPC_FAILURE.
 */
#pragma once
#include "emu/device/device.h"

enum { MPS_CLIENTS_MAX = 48 }; /* clients of a server on a device, as on an H200 */

/* Makes this process the device's server. Call without a lock. Errors: -ERR_BUSY (the device has a
 * server), -ERR_GONE (device lost). */
int mps_server_begin(struct device *device);
/* Ends the server; remaining clients get CUDA_ERROR_MPS_RPC_FAILURE. Call without a lock. */
void mps_server_end(struct device *device);
/* Handles the death of the server, if it has died. Call under the device's lock. */
void mps_reap(struct device *device);
/* Notes that a client has left; after its last client, a faulted server accepts new clients again.
 * Call under the device's lock; the caller commits. */
void mps_client_left(struct device *device);

/* Returns the number of clients of the device's server. Call under the device's lock. */
unsigned mps_client_count(const struct device *device);
/* Returns the slot of the server's client with that pid, or DEVICE_NO_SLOT. */
int mps_find_client(const struct device *device, int32_t pid);
bool mps_is_client(const struct device *device, const struct emu_client *client);
