/*
 * device/ implements the emulated device: the file that all processes share, its locks and clients,
 * the simulation, faults, and the state of its MPS server. device/ uses base, contention and abi/.
 *
 * This header declares one emulated device: its lock, and the simulation that computes the start
 * and end of every operation in its clients' queues. No process is dedicated to the simulation:
 * under the lock, any caller first advances the device from the last caller's time to the present.
 * The computed times therefore do not depend on the times of the calls.
 *
 * This folder contains the emulated device. Files of the folder emu/device may include base,
 * contention, emu/abi.
 */
#pragma once
#include <stdint.h>

#include "emu/device/mapping.h"

enum { DEVICE_NO_SLOT = -1 };

struct device {
    const struct mapping *mapping; /* borrowed; outlives the device */
    struct emu_device *state;
    unsigned index; /* index in the file */
    int own_slot;   /* slot of this process, or DEVICE_NO_SLOT */
};

void device_init(struct device *device, const struct mapping *mapping, unsigned index);

/* Takes the lock. If the last owner died, rolls back the owner's unfinished change. */
void device_lock(struct device *device);
void device_unlock(struct device *device);
/* Takes the lock and advances the device to the present. */
void device_lock_now(struct device *device);
/* Simulates up to `target_ns` of emulated time, and searches for dead clients from time to time.
 * Call under the lock. */
void device_advance(struct device *device, uint64_t target_ns);

/* Saves bytes that are about to change, for a roll-back. Call under the lock. */
void device_save(struct device *device, const void *at, size_t bytes);
/* Makes all changes since the last commit permanent. Call under the lock. */
void device_commit(struct device *device);
/* Saves usage, marks, contention, counts and the running operations. Call under the lock. */
void device_save_core(struct device *device);

/* Returns a lower bound of the emulated time until entry number `position` - 1 of the stream has
 * finished; 0: the entry has finished. Call under the lock. */
uint64_t device_stream_bound_ns(struct device *device, unsigned slot, unsigned stream,
                                uint64_t position);
/* Sleeps, in real time, until emulated time `until_ns`, and at least for a minimal time. `alarms`
 * is the count of alarms (mapping_alarms()) before the caller read the device's state: a later
 * alarm ends the sleep. A signal may also end the sleep. */
void device_sleep(struct device *device, uint64_t until_ns, uint32_t alarms);
