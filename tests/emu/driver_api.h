/*
 * For tests: the calls of the emulated driver and NVML, found in the libraries as a program would.
 * Handles are void pointers here, as for any caller.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CUDA_HANDLE(word, ours) typedef void *word;
#define NVML_HANDLE(word, tag)  typedef void *word;
#include "abi/nvml.h"
#include "emu/abi/cuda_abi.h"

struct driver_api {
    void *function;         /* gpumux_burn, after driver_api_open_device() */
    void *illegal_function; /* gpumux_illegal_address, which accesses one */
#define LACK(...)
#define CALL(symbol, name, version, variant, shim, errors, ...)                                    \
    CUresult(*symbol) CALL_PARAMETERS(__VA_ARGS__);
#include "../../api/cuda_calls.def"
#undef CALL
#define CALL(symbol, ...) call_##symbol *symbol;
#define TEXT(symbol, ...) call_##symbol *symbol;
#include "../../api/nvml_calls.def"
#undef CALL
#undef TEXT
#undef LACK
};

/* Loads both libraries from GPUMUX_BUILD/emu. Ends the program on failure. */
void driver_api_load(struct driver_api *api);
/* Makes a device file from `spec` in a new folder, and points GPUMUX_EMU at the file.
 * driver_api_remove_devices() removes the folder. */
void driver_api_make_devices(const char *spec, double speed, int shared);
void driver_api_remove_devices(void);
/* Allows every user to open the device file. */
void driver_api_share_devices(void);
/* Calls cuInit, retains the primary context of device 0 and loads the kernels. Returns a CUDA
 * result. */
int driver_api_try_open(struct driver_api *api);
/* Like driver_api_try_open(), but ends the program on failure. */
void driver_api_open_device(struct driver_api *api);
/* Launches gpumux_burn. */
int driver_api_burn(const struct driver_api *api, void *stream, unsigned sm_permille,
                    unsigned dram_permille, uint64_t duration_ns);
