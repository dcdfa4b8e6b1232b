/* Emulated devices of `gpumux up --emulate`: their state file, and the libraries that emulate
 * them. */
#pragma once
#include "base/arena.h"
#include "base/error.h"

struct emulation {
    const char *device_file; /* file that the devices' clients share */
    const char *libraries;   /* directory of libcuda.so.1 and libnvidia-ml.so.1 */
};

/*
 * Prepares the devices of `spec` under `state`/emu. Keeps devices of the same spec that were
 * created since the last boot, so that their workloads keep running. Returns 0, -ERR_INVALID for a
 * wrong spec, or -ERR_UNSUPPORTED if this installation lacks the emulated libraries.
 */
int emulation_prepare(struct error *e, struct arena *arena, const char *state, const char *spec,
                      struct emulation *ret);
