/*
 * CUDA_VISIBLE_DEVICES: which devices a process sees, and in which order. A list, separated by
 * commas, of indices and UUIDs (or unambiguous beginnings of them, from "GPU-" on). As in the real
 * driver, it ends at the first entry that names no device or one twice. NULL: all; "": none.
 */
#pragma once
#include "emu/mapping.h"

void visible_for_each(const char *list, const struct mapping *mapping,
                      void (*see)(void *argument, unsigned index), void *argument);
