/*
 * device/ is the emulated device: the file that all processes share, its locks and clients, the
 * simulation, faults, and what a device knows of its MPS server. It uses base, contention and abi/.
 *
 * One emulated device as a process sees it: its lock, and the simulation that computes when every
 * operation in its clients' queues starts and ends. Nothing runs by itself: whoever needs to know
 * advances the device to the present, under its lock, from wherever the last one left it. So the
 * time at which a caller looks changes nothing about the times that it finds.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "emu/device/mapping.h"

enum { DEVICE_NO_SLOT = -1 };

struct device {
    const struct mapping *mapping; /* not owned; outlives the device */
    struct emu_device *state;
    unsigned index; /* in the file */
    int own_slot;   /* the slot this process holds, or DEVICE_NO_SLOT */
};

void device_init(struct device *device, const struct mapping *mapping, unsigned index);

/* Takes the lock; after an owner that died, undoes what it left half done. */
void device_lock(struct device *device);
void device_unlock(struct device *device);
/* Takes the lock and advances to the present. */
void device_lock_now(struct device *device);
/* Under the lock: simulates up to `target_ns` of emulated time, looking for dead clients when that
 * was not done for a while. */
void device_advance(struct device *device, uint64_t target_ns);

/* Under the lock: remembers bytes that are about to be changed, and makes changes lasting. */
void device_save(struct device *device, const void *at, size_t bytes);
void device_commit(struct device *device);
/* Under the lock: remembers usage, marks, contention, counts and the running operations. */
void device_save_core(struct device *device);

/* Under the lock: a lower bound for the emulated time until entry number `position` - 1 of the
 * stream has finished; 0 when it has. */
uint64_t device_stream_bound_ns(struct device *device, unsigned slot, unsigned stream,
                                uint64_t position);
/* Sleeps (really) until emulated time `until_ns`, and at least a little; but not over an alarm
 * after the count `alarms` (mapping_alarms), which the caller read before it looked. A signal may
 * end it.
 */
void device_sleep(struct device *device, uint64_t until_ns, uint32_t alarms);
