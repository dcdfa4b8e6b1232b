/*
 * NVML, through which programs also ask how much memory there is: they get the same answer as from the driver.
 * A program comes to it by dlsym (calls_route) or by being linked with it, and may do so without the driver:
 * then the shim loads that, to know which device is which.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "shim/hook/calls.h"

/* In NVML's own words; of structs what the shim looks at. */
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;
typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

enum nvml_call {
#define HOOK(symbol, ...) NVML_##symbol,
#define USED(symbol, ...) NVML_##symbol,
#include "../../../api/nvml_calls.def"
#undef HOOK
#undef USED
    NVML_CALLS
};

#define HOOK(symbol, ...) int hook_##symbol CALL_PARAMETERS(__VA_ARGS__);
#define USED(symbol, ...)
#include "../../../api/nvml_calls.def"
#undef HOOK
#undef USED

/* All zero: nothing is known of it. */
struct nvml {
    _Atomic(void *) real[NVML_CALLS]; /* by enum nvml_call; NULL: not looked for, or not there */
};

/* As calls_route(), for names that begin with "nvml". */
struct calls_route nvml_route(void *handle, const char *name, const char *version, void *real);
