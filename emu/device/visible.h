/*
 * CUDA_VISIBLE_DEVICES: which devices a process sees, and in which order. A list, separated by
 * commas, of indices and UUIDs (or unambiguous beginnings of them, from "GPU-" on). As in the real
 * driver, it ends at the first entry that names no device or one twice. NULL: all; "": none.
 *
 * A client of an MPS server sees devices of that server, and its indices count among them.
 */
#pragma once
#include "emu/device/mapping.h"

/* Devices by their place in the file, in the order in which indices count. */
struct visible_among {
    uint32_t count;
    uint8_t devices[EMU_DEVICES_MAX];
};

void visible_among_all(const struct mapping *mapping, struct visible_among *ret_among);
void visible_for_each(const char *list, const struct mapping *mapping,
                      const struct visible_among *among,
                      void (*see)(void *argument, unsigned index), void *argument);
