/*
 * nvml/ implements libnvidia-ml.so.1, with which a process observes the devices. nvml/ uses base,
 * contention, abi and device/.
 *
 * The files of the emulated NVML share this header. A device handle is a struct device in the
 * library's own table; a process that only observes takes no client slot.
 *
 * This folder contains the emulated NVML. Files of the folder emu/nvml may include base, abi,
 * emu/device.
 */
#pragma once
/* The types behind NVML's handles. */
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

/* Returns NVML_SUCCESS or NVML_ERROR_UNINITIALIZED. */
int nvml_ready(void);
/* Checks a handle. Returns NVML_SUCCESS, NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT (no
 * handle of this library) or NVML_ERROR_GPU_IS_LOST. */
int nvml_check(const struct device *device);
/* Like nvml_check(), for a query. Returns NVML_ERROR_INVALID_ARGUMENT also if `answer` is NULL. */
int nvml_check_answer(const struct device *device, const void *answer);
/* Returns the library's device file. nvml_ready() must have succeeded. */
const struct mapping *nvml_mapping(void);

/* Average use of the device over the last utilisation windows, in permille. */
struct nvml_recent {
    unsigned busy, sm, dram;
};
struct nvml_recent nvml_recent(struct device *device);
