/*
 * Claims: a process claims resources of a device for as long as the process lives. A claim is a
 * lock on one byte far behind the end of the device file. The kernel drops the lock when the
 * process ends, in whatever way. The next process that finds the lock free frees the resources.
 *
 * The lock is an open-file-description lock: unlike the older record locks, the lock survives when
 * another library of the process opens and closes the same file. A forked child shares the lock, so
 * the child closes its copy of the descriptor (process.c).
 *
 * Numbers 0 … EMU_CLIENTS_MAX - 1 are the slots of clients; CLAIM_SERVER is the MPS server's.
 */
#pragma once
#include <stdbool.h>

#include "emu/device/device.h"

enum { CLAIM_SERVER = EMU_CLIENTS_MAX, CLAIMS_PER_DEVICE };

/* Takes the claim. Returns false if another process has the claim. */
bool claim_take(const struct device *device, unsigned number);
void claim_drop(const struct device *device, unsigned number);
/* Returns whether another process has the claim. Returns true if the query fails, since claimed
 * resources must not be freed. */
bool claim_is_held(const struct device *device, unsigned number);
