/*
 * Programs also query the device's memory through NVML: the hooks of NVML report the quota as the
 * hooks of the driver do. A program gets NVML by dlsym (calls_route()) or by a link with NVML. If
 * the program does not load the driver, the shim loads the driver to match devices by UUID.
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

/* All zero: no function was looked up yet. */
struct nvml {
    /* Indexed by enum nvml_call; NULL: not looked up yet, or missing. */
    _Atomic(void *) real[NVML_CALLS];
};

/* Like calls_route(), for names that begin with "nvml". */
struct calls_route nvml_route(void *handle, const char *name, const char *version, void *real);
