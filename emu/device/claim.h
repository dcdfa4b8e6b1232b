/*
 * Claims: the resources of a device that a process holds while it lives. A claim is a lock on one
 * byte far behind the end of the device file. The kernel drops the lock when the process ends, in
 * whatever way; the process that notices this frees the resources.
 *
 * The lock is an open-file-description lock: unlike the older record locks, it survives when
 * another library of the process opens and closes the same file. A forked child shares such a lock,
 * so the child closes its copy of the descriptor (process.c).
 *
 * Numbers 0 … EMU_CLIENTS_MAX - 1 are the slots of clients; CLAIM_SERVER is the MPS server's.
 */
#pragma once
#include <stdbool.h>

#include "emu/device/device.h"

enum { CLAIM_SERVER = EMU_CLIENTS_MAX, CLAIMS_PER_DEVICE };

/* Takes the claim. Returns false if another process has it. */
bool claim_take(const struct device *device, unsigned number);
void claim_drop(const struct device *device, unsigned number);
/* Returns whether another opener of the file holds the claim. Returns true if the query fails,
 * since held resources must not be given away. */
bool claim_is_held(const struct device *device, unsigned number);
