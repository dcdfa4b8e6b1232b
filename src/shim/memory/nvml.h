/*
 * NVML, through which programs also query the device's memory: NVML reports the quota as the driver
 * does. A program gets NVML by dlsym (calls_route) or by being linked with it, and may not load the
 * driver at all: the shim then loads the driver to match devices by UUID.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "abi/nvml.h"
#include "shim/hook/calls.h"

enum nvml_call {
#define INTERCEPTED(symbol, ...) NVML_##symbol,
#define USED(symbol, ...)        NVML_##symbol,
#include "shim/hook/nvml_calls.def"
    NVML_CALLS
};

#define INTERCEPTED(symbol, ...) call_##symbol hook_##symbol;
#define USED(symbol, ...)
#include "shim/hook/nvml_calls.def"

/* All zero: nothing has been looked up. */
struct nvml {
    /* Indexed by enum nvml_call; NULL: not looked up, or not there. */
    _Atomic(void *) real[NVML_CALLS];
};

/* Like calls_route(), for names that begin with "nvml". */
struct calls_route nvml_route(void *handle, const char *name, const char *version, void *real);
