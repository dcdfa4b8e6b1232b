/* Joins MPS: a process that starts to use CUDA asks the daemon for the terms of an MPS client. */
#pragma once

#include "emu/device/client.h"
#include "emu/mps/mps_protocol.h"

/* Asks the daemon of the pipe directory, and waits for its answer without a time limit. Without a
 * daemon, sets ret_welcome->server_pid to 0 and serves all devices. Returns a CUDA result:
 * CUDA_ERROR_MPS_CONNECTION_FAILED, or the daemon's result. */
int mps_join(const struct mapping *mapping, struct mps_welcome *ret_welcome);
/* Returns the terms for a device: for each term, the lower value of the daemon's and the
 * environment's. ordinal: the device's number in this process. */
struct client_terms mps_terms(const struct mps_welcome *welcome, const struct device *device,
                              unsigned ordinal);
