/*
 * The MPS server in the state of a device. A server is a process with CLAIM_SERVER; a device has at
 * most one. Its clients are those that joined its generation. When it ends, however that happens,
 * they get CUDA_ERROR_MPS_RPC_FAILURE.
 */
#pragma once
#include "emu/device/device.h"

enum { MPS_CLIENTS_MAX = 48 }; /* of a server on a device, as on an H200 */

/* Under no lock: this process becomes the device's server. -ERR_BUSY when there is one, -ERR_GONE
 * when the device is lost. */
int mps_server_begin(struct device *device);
/* Under no lock: it ends; clients that are left get their error. */
void mps_server_end(struct device *device);
/* Under the device's lock: notices that the server died. */
void mps_reap(struct device *device);
/* Under the device's lock: a client has left; a server that had a fault takes new ones again after
 * the last. Without commit: part of the caller's change. */
void mps_client_left(struct device *device);

/* Under the device's lock: clients of the device's server. */
unsigned mps_client_count(const struct device *device);
/* The slot of the server's client with that pid, or DEVICE_NO_SLOT. */
int mps_find_client(const struct device *device, int32_t pid);
bool mps_is_client(const struct device *device, const struct emu_client *client);
