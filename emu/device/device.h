/*
 * device/ is the emulated device: the file that all processes share, its locks and clients, the
 * simulation, faults, and the state of its MPS server. device/ uses base, contention and abi/.
 *
 * This header is one emulated device as a process sees it: its lock, and the simulation that
 * computes the start and end of every operation in its clients' queues. There is no simulating
 * process: under the lock, any caller first advances the device from the time where the last caller
 * stopped to the present. The computed times therefore do not depend on when a caller looks.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "emu/device/mapping.h"

enum { DEVICE_NO_SLOT = -1 };

struct device {
    const struct mapping *mapping; /* borrowed; outlives the device */
    struct emu_device *state;
    unsigned index; /* index in the file */
    int own_slot;   /* slot that this process holds, or DEVICE_NO_SLOT */
};

void device_init(struct device *device, const struct mapping *mapping, unsigned index);

/* Takes the lock. If the last owner died, rolls back its unfinished change. */
void device_lock(struct device *device);
void device_unlock(struct device *device);
/* Takes the lock and advances the device to the present. */
void device_lock_now(struct device *device);
/* Simulates up to `target_ns` of emulated time, and looks for dead clients from time to time. Call
 * under the lock. */
void device_advance(struct device *device, uint64_t target_ns);

/* Under the lock: save bytes that are about to change; make changes permanent. */
void device_save(struct device *device, const void *at, size_t bytes);
void device_commit(struct device *device);
/* Under the lock: saves usage, marks, contention, counts and the running operations. */
void device_save_core(struct device *device);

/* Returns a lower bound of the emulated time until entry number `position` - 1 of the stream has
 * finished; 0: it has finished. Call under the lock. */
uint64_t device_stream_bound_ns(struct device *device, unsigned slot, unsigned stream,
                                uint64_t position);
/* Sleeps, in real time, until emulated time `until_ns`, and for a minimal time at least. An alarm
 * after the count `alarms`, which the caller read (mapping_alarms) before it looked, ends the
 * sleep; so may a signal. */
void device_sleep(struct device *device, uint64_t until_ns, uint32_t alarms);
