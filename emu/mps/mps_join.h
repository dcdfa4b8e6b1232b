/* By this call a process that starts to use CUDA asks whether it becomes an MPS client. */
#pragma once
#include <stdbool.h>

#include "emu/device/client.h"
#include "emu/mps/mps_protocol.h"

/* Asks the daemon of the pipe directory, and waits for its answer without a time limit. Without a
 * daemon, welcome->server_pid is 0 and all devices are served. Returns a CUDA result:
 * CUDA_ERROR_MPS_CONNECTION_FAILED, or the daemon's result. */
int mps_join(const struct mapping *mapping, struct mps_welcome *ret_welcome);
/* Returns the terms for a device: those of the daemon, lowered by the environment's where these are
 * lower. ordinal: the device's number in this process. */
struct client_terms mps_terms(const struct mps_welcome *welcome, const struct device *device,
                              unsigned ordinal);
