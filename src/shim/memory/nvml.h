/*
 * NVML, through which programs also ask how much memory there is: they get the same answer as from
 * the driver. A program comes to it by dlsym (calls_route) or by being linked with it, and may do
 * so without the driver: then the shim loads that, to know which device is which.
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

/* All zero: nothing is known of it. */
struct nvml {
    _Atomic(void *) real[NVML_CALLS]; /* by enum nvml_call; NULL: not looked for, or not there */
};

/* As calls_route(), for names that begin with "nvml". */
struct calls_route nvml_route(void *handle, const char *name, const char *version, void *real);
