/*
 * The clients of a device: one slot for each process that has a context on it. A process keeps a
 * lock on one byte of the device file for each of its slots, far behind the file's end; the kernel
 * drops the lock when the process ends, however that happens, and whoever notices gives back what
 * the slot held. It is an open-file-description lock, which, unlike the older record locks, is not
 * lost when another library of the process opens and closes the same file. Such a lock is shared
 * with a forked child, so the child closes its copy of the descriptor (process.c).
 */
#pragma once
#include "emu/device.h"

/* Under no lock: takes a slot, empty and with the legacy stream, and makes it device->own_slot.
 * -ERR_BUSY when all EMU_CLIENTS_MAX are taken by living processes. */
int client_take(struct device *device);
/* Under no lock: gives device->own_slot back with all it holds: memory, streams, queued work. */
void client_release(struct device *device);
/* Under the device's lock: gives back the slots of processes that have ended. */
void client_reap(struct device *device);
