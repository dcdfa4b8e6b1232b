/* Emulated devices of `gpumux up --emulate`: their state file, and the libraries that play them. */
#pragma once
#include "base/arena.h"
#include "base/error.h"

struct emulation {
    const char *device_file; /* the file that the devices' clients share */
    const char *libraries;   /* directory of libcuda.so.1 and libnvidia-ml.so.1 */
};

/*
 * Prepares the devices that `spec` describes under `state`/emu. Devices that are already there from
 * the same spec, made since the machine was started, are kept: what runs on them runs on.
 * -ERR_INVALID: the spec is wrong. -ERR_UNSUPPORTED: this installation lacks the emulated
 * libraries.
 */
int emulation_prepare(struct error *e, struct arena *arena, const char *state, const char *spec,
                      struct emulation *ret);
