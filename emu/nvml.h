/* What the files of the emulated NVML share. A device handle is a struct device of the library's
 * own table; observers hold no client slot. */
#pragma once
#include "emu/device.h"
#include "emu/nvml_abi.h"

/* A handle of the library while it is initialised: NVML_SUCCESS, NVML_ERROR_UNINITIALIZED,
 * NVML_ERROR_INVALID_ARGUMENT. */
int nvml_check(const struct device *device);
