/*
 * CUDA_VISIBLE_DEVICES: the devices that a process sees, and their order. The variable is a list,
 * separated by commas, of indices and UUIDs, or unambiguous beginnings of UUIDs from "GPU-" on. As
 * in the real driver, the list ends at the first entry that names no device or repeats one. NULL:
 * all devices; "": none.
 *
 * A client of an MPS server sees only devices of that server, and indices refer to these.
 */
#pragma once
#include "emu/device/mapping.h"

/* Devices by their index in the file, in the order to which indices refer. */
struct visible_among {
    uint32_t count;
    uint8_t devices[EMU_DEVICES_MAX];
};

void visible_among_all(const struct mapping *mapping, struct visible_among *ret_among);
void visible_for_each(const char *list, const struct mapping *mapping,
                      const struct visible_among *among,
                      void (*see)(void *argument, unsigned index), void *argument);
