/* A process asks, when it starts to use CUDA, whether it is to be an MPS client. */
#pragma once
#include <stdbool.h>

#include "emu/device/client.h"
#include "emu/mps/mps_protocol.h"

/* Asks the daemon of the pipe directory, if there is one, and waits for its answer, as long as that
 * takes. Without a daemon: welcome->server_pid is 0 and all devices are served. Returns a CUDA
 * result: CUDA_ERROR_MPS_CONNECTION_FAILED, or what the daemon says. */
int mps_join(const struct mapping *mapping, struct mps_welcome *ret_welcome);
/* The terms for a device: those of the daemon, and of the environment where they are lower.
 * ordinal: the device's number in this process. */
struct client_terms mps_terms(const struct mps_welcome *welcome, const struct device *device,
                              unsigned ordinal);
