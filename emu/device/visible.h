/*
 * CUDA_VISIBLE_DEVICES: the devices that a process sees, and their order. The variable is a
 * comma-separated list of indices, UUIDs, and unambiguous beginnings of UUIDs from "GPU-" on. As in
 * the real driver, the list ends at the first entry that names no device or repeats a device. NULL:
 * all devices; "": no device.
 *
 * A client of an MPS server sees only devices of that server, and indices count these devices.
 */
#pragma once
#include "emu/device/mapping.h"

/* A set of devices, as indices in the file; CUDA_VISIBLE_DEVICES indexes this list. */
struct visible_among {
    uint32_t count;
    uint8_t devices[EMU_DEVICES_MAX];
};

void visible_among_all(const struct mapping *mapping, struct visible_among *ret_among);
/* Calls see() for each device that `list` (CUDA_VISIBLE_DEVICES) selects from the set, in order. */
void visible_for_each(const char *list, const struct mapping *mapping,
                      const struct visible_among *among,
                      void (*see)(void *argument, unsigned index), void *argument);
