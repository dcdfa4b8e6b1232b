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
    void *function;         /* gpumux_burn, once driver_api_open_device() was called */
    void *illegal_function; /* gpumux_illegal_address, which does one */
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

/* Loads both libraries from GPUMUX_BUILD/emu. Ends the program when that fails: it is a test's
 * set-up. */
void driver_api_load(struct driver_api *api);
/* Makes a device file from `spec` in a new folder and points GPUMUX_EMU at it; the folder goes with
 * driver_api_remove_devices(). */
void driver_api_make_devices(const char *spec, double speed, int shared);
void driver_api_remove_devices(void);
/* Lets every user open the device file. */
void driver_api_share_devices(void);
/* cuInit, the primary context of device 0, and the kernels: a CUDA result. */
int driver_api_try_open(struct driver_api *api);
/* The same, and the program ends when that fails. */
void driver_api_open_device(struct driver_api *api);
/* Launches gpumux_burn. */
int driver_api_burn(const struct driver_api *api, void *stream, unsigned sm_permille,
                    unsigned dram_permille, uint64_t duration_ns);
