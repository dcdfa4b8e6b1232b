/*
 * The file of a set of emulated devices, with all state that their clients share. The process that
 * starts the emulation creates the file; every process that uses a device maps the file. The file
 * is sparse: for each device about 250 MB of addresses and some hundred kilobytes of pages. Put the
 * file on a file system in memory, such as $XDG_RUNTIME_DIR or /dev/shm. Clients find the file by
 * the environment variable GPUMUX_EMU. To remove all state, delete the file after its last user has
 * ended.
 *
 * A specification of devices is a comma-separated list of `[N x] MODEL [: MEMORY]` or only N,
 * without the spaces: "4xH200:24g", "2", "RTX3090", "2xA100,T4:8g". The model defaults to H200.
 * MEMORY, in m or g (binary), can only reduce the model's memory.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

enum { EMU_DEVICES_MAX = 64 };

struct emu_device_options {
    double speed;           /* emulated seconds per second: 0.001 … 10000 */
    bool shared;            /* clients overlap as under MPS, instead of taking turns */
    uint64_t context_bytes; /* device memory that the first context of a process takes */
};

/* Reads GPUMUX_EMU_SPEED (default 1), GPUMUX_EMU_MODE (`sliced`, the default, or `shared`) and
 * GPUMUX_EMU_CONTEXT_MIB (default 0). Returns -ERR_INVALID with the name of a wrong variable. */
int emu_device_options_from_environment(struct error *e, struct emu_device_options *ret_options);

/* Creates the file with mode 0600 and new UUIDs. Replaces an existing file; users of the old file
 * continue with the old devices. options of NULL: speed 1, time-sliced, contexts without memory.
 * Errors: -ERR_INVALID (specification or option), -ERR_IO. */
int emu_device_file_create(struct error *e, const char *path, const char *spec,
                           const struct emu_device_options *options);

/* Checks a specification without creating a file; ret_count may be NULL. */
int emu_device_spec_check(struct error *e, const char *spec, unsigned *ret_count);
