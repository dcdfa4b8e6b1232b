/*
 * Claims: what a process holds of a device for as long as it lives. A claim is a lock on one byte
 * far behind the device file's end; the kernel drops it when the process ends, however that
 * happens, and whoever notices gives back what belonged to it. It is an open-file-description lock,
 * which, unlike the older record locks, is not lost when another library of the process opens and
 * closes the same file. Such a lock is shared with a forked child, so the child closes its copy of
 * the descriptor (process.c).
 *
 * Numbers 0 … EMU_CLIENTS_MAX - 1 are the slots of clients, CLAIM_SERVER is the MPS server's.
 */
#pragma once
#include <stdbool.h>

#include "emu/device/device.h"

enum { CLAIM_SERVER = EMU_CLIENTS_MAX, CLAIMS_PER_DEVICE };

/* False: another process has it. */
bool claim_take(const struct device *device, unsigned number);
void claim_drop(const struct device *device, unsigned number);
/* Whether another opener of the file holds it. If the question itself fails: yes, for what is held
 * must not be given away. */
bool claim_is_held(const struct device *device, unsigned number);
