/*
 * nvml/ is libnvidia-ml.so.1: what an observer sees of the devices. It uses base, contention, abi
 * and device/.
 *
 * What the files of the emulated NVML share. A device handle is a struct device of the library's
 * own table; observers hold no client slot.
 */
#pragma once
/* Its handles are structures of its own. */
#define nvmlDevice_st    device
#define nvmlEventSet_st  nvml_event_set
#define nvmlGpmSample_st nvml_gpm_sample
#include "abi/nvml.h"
#include "emu/device/device.h"

#define NVML_API __attribute__((visibility("default")))

#define CALL(symbol, ...) NVML_API call_##symbol symbol;
#define TEXT(symbol, ...) NVML_API call_##symbol symbol;
#define LACK(symbol)
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
#undef LACK

/* NVML_SUCCESS, or NVML_ERROR_UNINITIALIZED. */
int nvml_ready(void);
/* A handle of the library while it is initialised, of a device that is there: NVML_SUCCESS,
 * NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_GPU_IS_LOST. */
int nvml_check(const struct device *device);
/* The device file of the library, which is ready. */
const struct mapping *nvml_mapping(void);

/* Averages over the last utilisation windows, permille. */
struct nvml_recent {
    unsigned busy, sm, dram;
};
struct nvml_recent nvml_recent(struct device *device);
